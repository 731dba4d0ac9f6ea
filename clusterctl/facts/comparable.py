"""The facts that must be equal on nodes of one kind, as labelled texts. All functions are pure.

Facts that differ by nature are left out: names, addresses, serial numbers, boot identifiers, counters, clocks,
uptimes, and everything that depends on load (free memory, running containers, link speeds while idle).
A failed or denied reading has no label; something that is known to be missing has the value ``absent``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.fabric import RdmaDevice
from clusterctl.facts.model.host import UNLIMITED
from clusterctl.facts.model.node import NodeFacts

ABSENT = "absent"
MEMORY = "memory"
"""The one fact that is compared with a tolerance: firmware reserves a little, and not the same on each node."""
PARAMETER = "kernel parameter"
FAMILIES = (PARAMETER, "package", "modprobe option", "service", "module")
"""First words of labels that exist per node. Where a family was read, a member that it lacks is ``absent``."""

_OWN_PARAMETERS = re.compile(
    r"(BOOT_IMAGE|initrd|boot|root|resume|resume_offset|ip|ifname|nfsroot|rd\.(lvm|md|dm)\b.*|(rd\.)?luks\b.*|ostree|"
    r"hostname|systemd\.(hostname|machine_id)|cloud-config-url|ds|BOOTIF|wwid|netroot|(rd\.)?iscsi[._].*|inst\..*|"
    r"crashkernel)(=.*)?"
)
_IS_SUBNET_MANAGER = 0x2
"""The bit of a port's capability mask that a subnet manager sets on its own port (InfiniBand, PortInfo)."""
_MODULES = ("nvidia_peermem", "nv_peer_mem", "gdrdrv", "nvidia_fs", "rdma_rxe", "nouveau", "nvme_rdma")
_BY_MEMORY = ("fs.file-max",)
"""Parameters that the kernel derives from the memory size."""
_TOLD_BETTER = {
    "NCCL": ("libnccl2", "libnccl"),
    "docker": ("docker.io", "docker-ce", "moby-engine"),
    "container toolkit": ("nvidia-container-toolkit",),
    "fabric manager": ("nvidia-fabric-manager", "nvidia-fabricmanager"),
}
"""Packages whose version another label already holds, so that one difference is reported once."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """A node's comparable facts by label, the labels that describe hardware, and the families that were read."""

    values: dict[str, str] = field(default_factory=dict)
    hardware: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()


def _put(found: dict[str, str], label: str, reading: Reading[Any], say: Callable[[Any], str] = str) -> None:
    if reading.value is not None:
        found[label] = say(reading.value)
    elif reading.status in (ReadStatus.ABSENT, ReadStatus.EMPTY):
        found[label] = ABSENT


def _counted(words: list[str]) -> str:
    """Return ``8 x H200``, or ``6 x H200, 2 x A100``; ``absent`` for an empty list."""
    return ", ".join(f"{count} x {word}" for word, count in sorted(Counter(words).items())) or ABSENT


def _distinct(words: Iterator[str]) -> str:
    return ", ".join(sorted(set(words)))


def _switch(values: list[bool | None]) -> str | None:
    known = [value for value in values if value is not None]
    return None if not known else "on" if all(known) else "off" if not any(known) else "mixed"


def comparable(facts: NodeFacts) -> Comparable:
    """Return a node's facts that can be compared with other nodes'."""
    hardware = _hardware(facts)
    software = _software(facts)
    families: dict[str, dict[str, str]] = {}
    if facts.system.cmdline.value is not None:
        families[PARAMETER] = _parameters(facts.system.cmdline.value)
    if facts.software.packages.value is not None:
        told = {package for label in software for package in _TOLD_BETTER.get(label, ())}
        families["package"] = {p.name: p.version for p in facts.software.packages.value if p.name not in told}
    if facts.services.units.value is not None:
        families["service"] = {
            unit.name.removesuffix(".service"): "active" if unit.active == "reloading" else unit.active
            for unit in facts.services.units.value
            if unit.load != "not-found" and unit.active
        }
    if facts.modules.loaded.value is not None:
        families["module"] = {name: "loaded" for name in _MODULES if facts.modules.is_loaded(name)}
        options = [line.text.split(maxsplit=2) for line in facts.modules.options]
        families["modprobe option"] = {
            words[1]: words[2] for words in options if len(words) == 3 and words[0] == "options"
        }
    members = {f"{family} {name}": value for family, of in families.items() for name, value in of.items()}
    return Comparable({**hardware, **software, **members}, frozenset(hardware), frozenset(families))


def _parameters(words: tuple[str, ...]) -> dict[str, str]:
    """Return the kernel's parameters without those that name a disk, an image or the node itself."""
    found: dict[str, list[str]] = {}
    for word in words[: words.index("--") if "--" in words else None]:
        name, equals, value = word.partition("=")
        if not _OWN_PARAMETERS.fullmatch(word) and re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            found.setdefault(name, []).append(value if equals else "set")
    return {name: " ".join(values) for name, values in found.items()}


def _hardware(facts: NodeFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    _put(found, "architecture", facts.system.machine)
    _put(found, "virtualization", facts.system.virtualization, lambda v: f"{v.vm}/{v.container}")
    _put(found, "CPU model", facts.cpu.topology, lambda cpu: cpu.model_name)
    _put(
        found,
        "CPUs",
        facts.cpu.topology,
        lambda c: f"{c.sockets} sockets, {c.cores} cores, {c.threads} threads",
    )
    _put(found, "NUMA nodes", facts.cpu.numa_nodes, lambda nodes: str(len(nodes)))
    if facts.memory.total_bytes.value is not None:
        # Drift compares memory as a number, so a node without a value gets no label.
        found[MEMORY] = f"{facts.memory.total_bytes.value / 2**30:.0f} GiB"
    if facts.pci.devices.value is not None:
        gpus = facts.pci.nvidia_gpus
        found["GPUs on the bus"] = _counted([f"{gpu.vendor}:{gpu.device}" for gpu in gpus])
        widths = [
            f"{g.link.max_speed_gtps:g} GT/s x{g.link.max_width}" for g in gpus if g.link.max_speed_gtps
        ]
        if widths:
            found["GPU slots"] = _counted(widths)
    found.update(_gpus(facts))
    found.update(_fabric(facts))
    for path, label in (("bios_version", "BIOS"), ("product_name", "machine"), ("board_name", "board")):
        firmware = facts.versions.firmware_word(path)
        if firmware is not None:
            found[label] = firmware
    return found


def _gpus(facts: NodeFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    gpus = facts.gpu.devices.value
    if gpus is None:
        return found
    found["GPUs"] = _counted([gpu.name for gpu in gpus])
    sizes = {gpu.memory_bytes for gpu in gpus if gpu.memory_bytes is not None}
    if sizes:
        found["GPU memory"] = _distinct(f"{size / 2**30:.0f} GiB" for size in sizes)
    for label, values in (
        ("GPU ECC", [gpu.ecc for gpu in gpus]),
        ("GPU MIG", [gpu.mig for gpu in gpus]),
        ("GPU persistence", [gpu.persistence for gpu in gpus]),
    ):
        state = _switch(values)
        if state is not None:
            found[label] = state
    modes = _distinct(gpu.compute_mode for gpu in gpus if gpu.compute_mode)
    if modes:
        found["GPU compute mode"] = modes
    if facts.gpu.nvlinks.value is not None:
        active = [sum(speed is not None for speed in links.link_gbps) for links in facts.gpu.nvlinks.value]
        found["NVLinks per GPU"] = _distinct(str(count) for count in active) or ABSENT
    return found


def _fabric(facts: NodeFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    devices = [
        device
        for device in facts.rdma.devices.or_else(())
        if not (device.is_virtual or _is_given_away(facts, device.pci_address))
    ]
    if facts.rdma.devices.value is not None or facts.rdma.devices.status is ReadStatus.ABSENT:
        found["RDMA devices"] = _counted([device.board_id or "unnamed board" for device in devices])
    boards = sorted({device.board_id for device in devices if device.board_id})
    for board in boards:
        of_board = [device for device in devices if device.board_id == board]
        found[f"firmware of {board}"] = _distinct(device.fw_ver for device in of_board if device.fw_ver)
        found[f"link layer of {board}"] = _distinct(p.link_layer for device in of_board for p in device.ports)
        found |= {f"{name} of {board}": value for name, value in _ibstat(of_board).items() if value}
    interfaces = facts.network.interfaces.or_else(())
    # A bond has no device of its own, but its speed drops when one of its links is down.
    above = {interface.master for interface in interfaces if interface.pci_address is not None}
    for interface in interfaces:
        if interface.pci_address is not None or interface.name in above:
            found[f"MTU of {interface.name}"] = str(interface.mtu)
            if interface.speed_mbps is not None and interface.operstate == "up":
                found[f"speed of {interface.name}"] = f"{interface.speed_mbps} Mb/s"
    return found


def _ibstat(devices: list[RdmaDevice]) -> dict[str, str]:
    """Return the fields of ibstat that are equal on equal nodes; those of a subnet only where it is InfiniBand.

    Ports that are not active have no LIDs yet. The capability mask has a bit of the node with the subnet manager.
    """
    ports = [port for device in devices for port in device.ports]
    lids = [port for port in ports if port.link_layer == "InfiniBand" and port.state == "ACTIVE"]
    return {
        "hardware revision": _distinct(device.hw_rev for device in devices if device.hw_rev),
        "capability mask": _distinct(
            f"0x{port.capability_mask & ~_IS_SUBNET_MANAGER:08x}"
            for port in ports
            if port.capability_mask is not None
        ),
        "LMC": _distinct(str(port.lmc) for port in lids if port.lmc is not None),
        "SM LID": _distinct(str(port.sm_lid) for port in lids if port.sm_lid is not None),
    }


def _is_given_away(facts: NodeFacts, address: str | None) -> bool:
    """Return whether a device is a virtual function, which appears and disappears with guests and pods."""
    function = facts.pci.device(address) if address is not None else None
    return function is not None and function.physical_function is not None


def _software(facts: NodeFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    _put(found, "OS", facts.system.os, lambda system: system.pretty_name)
    _put(found, "kernel", facts.system.kernel)
    _put(found, "secure boot", facts.system.secure_boot, lambda on: "on" if on else "off")
    _put(found, "NVIDIA driver", facts.gpu.driver, lambda driver: f"{driver.version} ({driver.flavour})")
    _put(found, "NVIDIA module on disk", facts.gpu.module_version)
    _put(found, "fabric manager", facts.gpu.fabric_manager)
    nccl = facts.versions.nccl or _upstream(facts.software.package("libnccl2"))
    nccl = nccl or _upstream(facts.software.package("libnccl"))
    if nccl or facts.software.packages.value is not None:
        found["NCCL"] = nccl or ABSENT
    if facts.versions.cuda:
        found["CUDA"] = ", ".join(facts.versions.cuda)
    _put(found, "OFED", facts.gpudirect.ofed_version)
    _put(found, "nv_peer_mem", facts.gpudirect.nv_peer_mem_version)
    _put(found, "nvidia-peermem", facts.gpudirect.nvidia_peermem_version)
    _put(found, "peer memory API", facts.gpudirect.peer_memory_api, lambda there: "yes" if there else "no")
    _put(found, "DMA-BUF verbs", facts.gpudirect.verbs_dmabuf, lambda there: "yes" if there else "no")
    found["libibverbs providers"] = " ".join(sorted(facts.rdma.providers)) or ABSENT
    engine = facts.docker.engine
    _put(found, "docker", engine, lambda docker: docker.server_version)
    if engine.value is not None:
        found["docker runtime"] = engine.value.default_runtime
        found["docker storage"] = f"{engine.value.storage_driver}, cgroups by {engine.value.cgroup_driver}"
    _put(found, "container toolkit", facts.docker.toolkit)
    _put(found, "memlock", facts.limits.memlock, lambda limit: _amount(limit.soft))
    _put(found, "open files", facts.limits.nofile, lambda limit: _amount(limit.soft))
    _put(found, "CPU governor", facts.cpu.governors, lambda all_: _distinct(g.name for g in all_))
    _put(found, "transparent huge pages", facts.memory.transparent_hugepages)
    for pages in facts.memory.hugepages:
        found[f"huge pages of {pages.size_bytes // 1024} KiB"] = str(pages.total)
    found.update(
        {f"sysctl {s.name}": s.value or "(empty)" for s in facts.sysctls if s.name not in _BY_MEMORY}
    )
    for mount in facts.storage.mounts.or_else(()):
        if mount.fstype in ("nfs", "nfs4", "lustre", "beegfs", "gpfs", "ceph", "wekafs"):
            found[f"mount {mount.target}"] = mount.source
    return found


def _amount(number: int) -> str:
    return "unlimited" if number == UNLIMITED else str(number)


def _upstream(version: str | None) -> str | None:
    """Return a package's version without epoch and revision: ``2.27.3`` of ``2.27.3-1+cuda12.9``."""
    return None if version is None else version.rpartition(":")[2].partition("-")[0]
