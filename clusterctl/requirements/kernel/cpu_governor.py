"""``cpu-governor``: all online processors use the frequency governor that the inventory sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.boot_unit import BootUnit
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Step, WriteValue
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.host import Governor
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "cpu-governor"
TITLE = "Processors use the performance governor"
READS = frozenset({"configuration", "cpu", "services", "system"})
ABOUT = About(
    checks="every online CPU has the governor `performance`",
    why=(
        "threads that drive network and GPUs sleep and wake frequently; a governor that lowers the "
        "frequency in between adds latency to every step of a collective"
    ),
    bootstrap="sets the governor, now and at every boot",
    undo="writes the former governors back, and removes the boot unit",
    settings=("requirements.cpu_governor",),
)

AT_BOOT = BootUnit("/usr/local/lib/clusterctl/cpu-governor", "clusterctl-cpu-governor.service")


def _others(facts: NodeFacts, wanted: str) -> tuple[Governor, ...]:
    return tuple(g for g in facts.cpu.governors.or_else(()) if g.name != wanted)


def _held_back(facts: NodeFacts, wanted: str) -> tuple[str, ...]:
    """Return what limits frequencies under any governor.

    Source: Linux, admin-guide/pm (intel_pstate, amd-pstate).
    """
    found = []
    frequency = facts.cpu.frequency
    if frequency is not None and wanted == "performance":
        # With the performance governor both drivers set this preference themselves and reject others.
        if frequency.preference not in (None, "performance", "0"):
            found.append(
                f"the energy preference of {frequency.driver} is {frequency.preference}, which limits frequencies "
                "under any governor"
            )
        percent = frequency.max_performance_percent
        if percent is not None and percent < 100:
            found.append(f"{frequency.driver} is limited to {percent}% (max_perf_pct)")
        if frequency.turbo is False:
            found.append("turbo frequencies are turned off")
    unit = facts.services.unit(AT_BOOT.unit)
    if unit is not None and unit.active == "failed":
        found.append(f"{AT_BOOT.unit} failed at boot (see journalctl -u {AT_BOOT.unit})")
    return tuple(found)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if every processor has the governor; not applicable if the kernel offers no frequency scaling.

    Also unmet if an interrupted bootstrap installed only part of what sets the governor at every boot.
    """
    wanted = node.requirements.cpu_governor
    reading = facts.cpu.governors
    if reading.value is None:
        if reading.status.value in ("absent", "empty"):
            reason = "the kernel offers no frequency scaling (as in most virtual machines)"
            return Decision(NAME, Status.NOT_APPLICABLE, reason)
        return Decision(NAME, Status.UNKNOWN, because("the frequency governor", reading))
    evidence: dict[str, Json] = {g.name: len(g.cpus) for g in reading.value}
    if facts.in_container:
        reason = "this is a container; its processors belong to the host"
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    others = _others(facts, wanted)
    held_back = _held_back(facts, wanted)
    if not others:
        gap = AT_BOOT.gap(facts)
        if gap is not None:
            reason = f"all processors use {wanted} now, but nothing sets it at the next boot: {gap}"
            return Decision(NAME, Status.UNMET, reason, evidence, held_back, _steps(facts, wanted, others))
        return Decision(NAME, Status.MET, f"all processors use {wanted}", evidence, held_back)
    said = some([f"{len(g.cpus)} processors use {g.name}" for g in others])
    refusing = sum(len(g.cpus) for g in others if wanted not in g.available)
    if refusing:
        said += f"; {wanted} is not available on {refusing} of them (available: {some(others[0].available)})"
    warnings = tuple(
        f"{unit} is active and may change the governor"
        for unit in ("tuned.service", "power-profiles-daemon.service")
        if (found := facts.services.unit(unit)) is not None and found.active == "active"
    )
    steps = _steps(facts, wanted, others)
    return Decision(NAME, Status.UNMET, said, evidence, (*warnings, *held_back), steps)


def _steps(facts: NodeFacts, wanted: str, others: tuple[Governor, ...]) -> tuple[Step, ...]:
    """Return the steps that set the governor at every boot, then now on each processor that offers it.

    With this order, a node on which a step fails still uses another governor and stays unmet.
    """
    pairs = sorted((cpu, g.name) for g in others if wanted in g.available for cpu in g.cpus)
    found: list[Step] = []
    if (pairs or not others) and facts.system.systemd_running:
        found += AT_BOOT.steps(render("apply", "cpu-governor.sh", governor=wanted))
    found += [
        WriteValue(
            f"Set the governor of cpu{cpu} to {wanted}",
            f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor",
            wanted,
            prior,
        )
        for cpu, prior in pairs
    ]
    return tuple(found)
