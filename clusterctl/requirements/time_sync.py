"""``time-sync``: one service keeps the clock, it is in step, and the clock agrees with the other nodes'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements import time_daemon, time_offset
from clusterctl.requirements.base import Json, Status, Step, Verdict
from clusterctl.requirements.packages import by_hand
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet import Fleet

NAME = "time-sync"
TITLE = "Clocks agree, and one service keeps them"
READS = frozenset({"clock", "configuration", "services", "software", "system"})


def _service_fault(facts: NodeFacts, node: Node) -> str | None:
    """What is wrong with the service that keeps the clock."""
    found = time_daemon.daemons(facts)
    running = [daemon for daemon in found if daemon.runs]
    if len(running) > 1:
        return f"{' and '.join(d.unit.name for d in running)} run both and set the same clock"
    if not running:
        if facts.services.units.value is not None or facts.clock.source == "none":
            there = (
                f" ({found[0].unit.name} is {found[0].unit.active})" if found else by_hand(facts, "chrony")
            )
            return f"no time service runs{there}"
        return None
    kind = running[0].kind
    lacking = time_daemon.missing(facts, node, kind)
    if lacking is not None and not (kind == "chrony" and time_daemon.unseen(facts, node)):
        return lacking
    if facts.clock.synchronized.value is False:
        return f"{running[0].unit.name} runs, but is not in step with any time server"
    return None


def _judge_ptp(
    facts: NodeFacts,
    ptp: time_daemon.Ptp,
    wrong: str | None,
    warnings: tuple[str, ...],
    evidence: dict[str, Json],
) -> Verdict:
    """Judge a clock that PTP keeps: by its offset only, and whatever it is, nothing is changed."""
    evidence = {**evidence, "ptp": ptp.name}
    if not ptp.runs:
        unit = facts.services.unit(ptp.name)
        state = "not there" if unit is None else unit.active
        reason = f"{ptp.name} is enabled to keep the clock, but is {state}: start it, or disable it for NTP"
        return Verdict(NAME, Status.UNMET, reason, evidence, warnings)
    others = [daemon.unit.name for daemon in time_daemon.daemons(facts) if daemon.runs]
    if others:
        said = f"{ptp.name} and {' and '.join(others)} run both: only one may set the clock (chronyd -x)"
        warnings = (*warnings, said)
    offset = facts.clock.offset_s
    if offset is None:
        return Verdict(NAME, Status.UNKNOWN, "the node's clock could not be read", evidence, warnings)
    if wrong is not None:
        tai = ", which is what TAI is ahead of UTC (phc2sys -O)" if 36.0 < abs(offset) < 38.0 else ""
        reason = f"{ptp.name} keeps the clock by PTP, and is not touched; but {wrong}{tai}"
        return Verdict(NAME, Status.UNKNOWN, reason, evidence, warnings)
    reason = f"{ptp.name} keeps the clock by PTP, {time_offset.span(offset)} off"
    return Verdict(NAME, Status.MET, reason, evidence, warnings)


def judge(facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
    """Met when one service keeps the clock, is in step, and the offsets are within the limit."""
    if not node.requirements.time_sync.require:
        return Verdict(NAME, Status.NOT_APPLICABLE, "the inventory does not require it")
    if facts.in_container:
        return Verdict(NAME, Status.NOT_APPLICABLE, "this is a container: its clock is the host's")
    clock = facts.clock
    evidence: dict[str, Json] = {
        "offset_s": clock.offset_s,
        "uncertainty_s": clock.uncertainty_s,
        "source": clock.source,
        "synchronized": clock.synchronized.value,
        "services": [daemon.unit.name for daemon in time_daemon.daemons(facts) if daemon.runs],
    }
    ptp = time_daemon.ptp(facts)
    wrong, warnings = time_offset.judge_offset(facts, node, fleet)
    if ptp is not None:
        return _judge_ptp(facts, ptp, wrong, warnings, evidence)
    unread = clock.synchronized.is_unknown
    service = _service_fault(facts, node)
    if unread and facts.services.units.or_else(()) == () and wrong is None:
        reason = because("the time service's account", clock.synchronized)
        return Verdict(NAME, Status.UNKNOWN, reason, evidence, warnings)
    faults = [fault for fault in (wrong, service) if fault is not None]
    if faults:
        return Verdict(NAME, Status.UNMET, "; ".join(faults), evidence, warnings)
    if clock.offset_s is None:
        return Verdict(NAME, Status.UNKNOWN, "the node's clock could not be read", evidence, warnings)
    if clock.synchronized.value is None:
        reason = because("the time service's account", clock.synchronized)
        return Verdict(NAME, Status.UNKNOWN, reason, evidence, warnings)
    unseen = time_daemon.unseen(facts, node)
    if clock.source == "chrony" and unseen is not None:
        return Verdict(NAME, Status.UNKNOWN, unseen, evidence, warnings)
    reason = f"{clock.source} keeps the clock, {time_offset.span(clock.offset_s)} off"
    return Verdict(NAME, Status.MET, reason, evidence, warnings)


def steps(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
    """Set a clock that is days off and not in step, leave one service running, tell it whom to ask, and wait for it."""
    if judge(facts, node, fleet).status is not Status.UNMET or not facts.system.systemd_running:
        return ()
    if time_daemon.ptp(facts) is not None:
        return ()
    found: list[Step] = []
    offset = facts.clock.offset_s
    # A clock that a time server keeps is never set by this machine's, whoever of the two is wrong.
    far = offset is not None and abs(offset) > time_offset.DAY_S and not time_offset.in_step(facts, node)
    if offset is not None and far and time_offset.judge_offset(facts, node, fleet)[0] is not None:
        found.append(time_daemon.set_clock(facts.gathered_at, offset))
    there = time_daemon.daemons(facts)
    if not there:
        # Whom it asks is written in the next round, into the files that the package brings.
        return (*found, *time_daemon.bring(facts, node))
    running = [daemon for daemon in there if daemon.runs]
    chosen = (running or there)[0]
    found += [time_daemon.quiet(loser) for loser in running[1:]]
    if time_daemon.serves(node) and chosen.kind != "chrony":
        return tuple(found)
    found += time_daemon.configure(facts, node, chosen)
    found += time_daemon.started(chosen)
    # A node that serves its own time is in step with nobody.
    if not (time_daemon.serves(node) and not time_daemon.others(node)):
        found.append(time_daemon.wait(chosen.kind))
    return tuple(found)
