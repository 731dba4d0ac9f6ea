"""Processors: topology, NUMA nodes, frequency governors, NUMA balancing."""

from __future__ import annotations

import re

from clusterctl.facts.base import (
    Files,
    Fragment,
    Reading,
    ReadStatus,
    Section,
    Sections,
    Unparsable,
    absent,
    cpu_list,
)
from clusterctl.facts.model.host import Cpu, CpuTopology, Frequency, Governor, NumaNode
from clusterctl.text.foreign import whole

_CPU = "/sys/devices/system/cpu"

FRAGMENTS = (
    Fragment(
        "cpu",
        """\
i=0
while [ $i -lt 32 ] && IFS= read -r v; do printf '%s\\n' "$v"; i=$((i + 1)); done </proc/cpuinfo
return 0""",
        files=(
            *(f"{_CPU}/online", "/sys/devices/system/node/node[0-9]*/cpulist"),
            *("/proc/sys/kernel/numa_balancing", f"{_CPU}/cpu[0-9]*/topology/physical_package_id"),
            *(
                f"{_CPU}/cpu[0-9]*/topology/thread_siblings_list",
                f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor",
            ),
            *(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_available_governors", f"{_CPU}/cpu0/cpufreq/scaling_driver"),
            *(f"{_CPU}/cpu0/cpufreq/energy_performance_preference", f"{_CPU}/intel_pstate/no_turbo"),
            *(f"{_CPU}/intel_pstate/max_perf_pct", f"{_CPU}/cpufreq/boost"),
        ),
    ),
)


def parse_topology(text: str) -> CpuTopology:
    """Parse the first processor of /proc/cpuinfo and the topology files; raise Unparsable without online CPUs."""
    info: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and re.fullmatch(r"[A-Za-z][\w \t]*", key):
            info.setdefault(key.rstrip(), value.strip())
    files = Files.of_text(text)
    packages = [value for _, value in files.matching(rf"{_CPU}/cpu\d+/topology/physical_package_id")]
    siblings = {value for _, value in files.matching(rf"{_CPU}/cpu\d+/topology/thread_siblings_list")}
    online = cpu_list(files.text(f"{_CPU}/online") or "")
    if not online:
        raise Unparsable(f"{_CPU}/online is missing")
    return CpuTopology(
        model_name=info.get("model name") or info.get("Processor") or info.get("CPU part", ""),
        online=online,
        cores=len(siblings) or len(online),
        sockets=len(set(packages)) or 1,
        hypervisor="hypervisor" in info.get("flags", "").split(),
    )


def parse_numa(text: str) -> tuple[NumaNode, ...]:
    """Return each NUMA node with its processors, in order of their numbers."""
    found = Files.of_text(text).matching(r"/sys/devices/system/node/node(\d{1,6})/cpulist")
    return tuple(sorted((NumaNode(int(m[1]), cpu_list(value)) for m, value in found), key=lambda n: n.index))


def _governors(section: Section) -> Reading[tuple[Governor, ...]]:
    if section.status is not ReadStatus.OK:
        return Reading(None, section.status, section.detail)
    files = Files(section)
    pattern = rf"{_CPU}/cpu(\d{{1,6}})/cpufreq/scaling_governor"
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for match, name in files.matching(pattern):
        available = files.text(f"{_CPU}/cpu{match[1]}/cpufreq/scaling_available_governors") or ""
        groups.setdefault((name, tuple(available.split())), []).append(int(match[1]))
    if not groups:
        return absent("the kernel offers no frequency scaling here (usual in virtual machines)")
    return Reading(tuple(Governor(name, able, tuple(sorted(cpus))) for (name, able), cpus in groups.items()))


def _frequency(files: Files) -> Frequency | None:
    driver = files.text(f"{_CPU}/cpu0/cpufreq/scaling_driver")
    if driver is None:
        return None
    no_turbo, boost = files.number(f"{_CPU}/intel_pstate/no_turbo"), files.number(f"{_CPU}/cpufreq/boost")
    turbo = None if boost is None else boost != 0
    return Frequency(
        driver=driver,
        preference=files.text(f"{_CPU}/cpu0/cpufreq/energy_performance_preference"),
        max_performance_percent=files.number(f"{_CPU}/intel_pstate/max_perf_pct"),
        turbo=turbo if no_turbo is None else no_turbo == 0,
    )


def parse(sections: Sections) -> Cpu:
    """Return the facts of the section ``cpu``."""
    section = sections["cpu"]
    return Cpu(
        topology=section.read(parse_topology),
        numa_nodes=section.read(parse_numa),
        governors=_governors(section),
        numa_balancing=Files(section).one("/proc/sys/kernel/numa_balancing", whole),
        frequency=_frequency(Files(section)),
    )
