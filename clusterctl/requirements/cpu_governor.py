"""``cpu-governor``: all online processors run under the governor that the inventory names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.base import EnableUnit, Json, Status, Step, Verdict, WriteFile, WriteValue
from clusterctl.requirements.rendering import render
from clusterctl.requirements.wording import because, some

if TYPE_CHECKING:
    from clusterctl.facts.model import Governor, NodeFacts
    from clusterctl.inventory.model import Node

NAME = "cpu-governor"
TITLE = "Processors run under the performance governor"

SCRIPT = "/usr/local/lib/clusterctl/cpu-governor"
UNIT = "clusterctl-cpu-governor.service"


def _others(facts: NodeFacts, wanted: str) -> tuple[Governor, ...]:
    return tuple(g for g in facts.cpu.governors.or_else(()) if g.name != wanted)


def judge(facts: NodeFacts, node: Node) -> Verdict:
    """Met when every processor has the governor; not applicable where the kernel scales no frequency."""
    wanted = node.requirements.cpu_governor
    reading = facts.cpu.governors
    if reading.value is None:
        if reading.status.value in ("absent", "empty"):
            reason = "the kernel offers no frequency scaling (as in most virtual machines)"
            return Verdict(NAME, Status.NOT_APPLICABLE, reason)
        return Verdict(NAME, Status.UNKNOWN, because("the frequency governor", reading))
    evidence: dict[str, Json] = {g.name: len(g.cpus) for g in reading.value}
    if facts.in_container:
        reason = "this is a container: its processors belong to the host"
        return Verdict(NAME, Status.NOT_APPLICABLE, reason, evidence)
    others = _others(facts, wanted)
    if not others:
        return Verdict(NAME, Status.MET, f"all processors are under {wanted}", evidence)
    said = some([f"{len(g.cpus)} processors are under {g.name}" for g in others])
    refusing = sum(len(g.cpus) for g in others if wanted not in g.available)
    if refusing:
        said += f"; {wanted} is not offered for {refusing} of them (offered: {some(others[0].available)})"
    warnings = tuple(
        f"{unit} is active and sets governors of its own"
        for unit in ("tuned.service", "power-profiles-daemon.service")
        if (found := facts.services.unit(unit)) is not None and found.active == "active"
    )
    return Verdict(NAME, Status.UNMET, said, evidence, warnings)


def steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Set the governor of each processor that offers it, now and at every boot."""
    if judge(facts, node).status is not Status.UNMET:
        return ()
    wanted = node.requirements.cpu_governor
    pairs = sorted((cpu, g.name) for g in _others(facts, wanted) if wanted in g.available for cpu in g.cpus)
    found: list[Step] = [
        WriteValue(
            f"Set the governor of cpu{cpu} to {wanted}",
            f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor",
            wanted,
            prior,
        )
        for cpu, prior in pairs
    ]
    if found and facts.system.systemd_running:
        script = render("apply", "cpu-governor.sh", governor=wanted)
        unit = render("systemd", UNIT, script=SCRIPT)
        found += [
            WriteFile(f"Write {SCRIPT}", SCRIPT, script, 0o755),
            WriteFile(f"Write the unit {UNIT}", f"/etc/systemd/system/{UNIT}", unit),
            EnableUnit(f"Enable {UNIT} at boot", UNIT),
        ]
    return tuple(found)
