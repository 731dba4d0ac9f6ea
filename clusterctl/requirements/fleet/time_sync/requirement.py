"""``time-sync``: one service synchronizes the clock with a server, and the clock agrees with the other nodes'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.fleet.time_sync import daemon as time_daemon
from clusterctl.requirements.fleet.time_sync import offset as time_offset
from clusterctl.requirements.packages import by_hand
from clusterctl.requirements.steps import Step
from clusterctl.requirements.wording import NO_SYSTEMD, because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "time-sync"
TITLE = "Clocks agree, and one service synchronizes them"
READS = frozenset({"clock", "configuration", "services", "software", "system"})
ABOUT = About(
    checks="one time service runs, and the clocks agree with this machine and with each other",
    why=(
        "certificates, package signatures and the order of events in logs need clocks that agree; with a "
        "clock that is years off, apt, dnf and every TLS connection fail with errors that never mention "
        "the clock"
    ),
    bootstrap="installs or enables a time service, on nodes that run systemd",
    undo="restores files, units and packages; a clock that was set stays set",
    settings=("requirements.time_sync",),
)


def _service_fault(facts: NodeFacts, node: Node) -> str | None:
    """Return what is wrong with the service that synchronizes the clock; None when nothing is."""
    found = time_daemon.daemons(facts)
    running = [daemon for daemon in found if daemon.runs]
    if len(running) > 1:
        return f"{' and '.join(d.unit.name for d in running)} both run and set the same clock"
    if not running:
        if facts.services.units.value is not None or facts.clock.source == "none":
            there = (
                f" ({found[0].unit.name} is {found[0].unit.active})" if found else by_hand(facts, "chrony")
            )
            return f"no time service is running{there}"
        return None
    kind = running[0].kind
    lacking = time_daemon.missing(facts, node, kind)
    if lacking is not None and not (kind == "chrony" and time_daemon.unseen(facts, node)):
        return lacking
    if facts.clock.synchronized.value is False:
        return f"{running[0].unit.name} runs, but is not synchronized with any time server"
    return None


def _judge_ptp(
    facts: NodeFacts,
    ptp: time_daemon.Ptp,
    wrong: str | None,
    warnings: tuple[str, ...],
    evidence: dict[str, Json],
) -> Decision:
    """Decide on a clock that PTP sets: only its offset is judged, and no step changes it."""
    evidence = {**evidence, "ptp": ptp.name}
    if not ptp.runs:
        unit = facts.services.unit(ptp.name)
        state = "not installed" if unit is None else unit.active
        reason = f"{ptp.name} is enabled to set the clock, but is {state}: start it, or disable it to use NTP"
        return Decision(NAME, Status.UNMET, reason, evidence, warnings)
    others = [daemon.unit.name for daemon in time_daemon.daemons(facts) if daemon.runs]
    if others:
        said = f"{ptp.name} and {' and '.join(others)} both run: only one may set the clock (chronyd -x)"
        warnings = (*warnings, said)
    offset = facts.clock.offset_s
    if offset is None:
        return Decision(NAME, Status.UNKNOWN, "the node's clock could not be read", evidence, warnings)
    if wrong is not None:
        tai = ", which is the difference of TAI and UTC (see phc2sys -O)" if 36.0 < abs(offset) < 38.0 else ""
        reason = f"{ptp.name} sets the clock by PTP, and clusterctl does not change it; but {wrong}{tai}"
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    reason = f"{ptp.name} sets the clock by PTP, {time_offset.span(offset)} off"
    return Decision(NAME, Status.MET, reason, evidence, warnings)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when one service synchronizes the clock with a server, and the offsets are within the limit."""
    if not node.requirements.time_sync.require:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not require time-sync")
    if facts.in_container:
        return Decision(NAME, Status.NOT_APPLICABLE, "this is a container: it uses its host's clock")
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
        reason = because("the state of the time service", clock.synchronized)
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    faults = [fault for fault in (wrong, service) if fault is not None]
    if faults:
        steps = _steps(facts, node, is_wrong=wrong is not None)
        no_step = "" if facts.system.systemd_running else NO_SYSTEMD
        return Decision(NAME, Status.UNMET, "; ".join(faults), evidence, warnings, steps, no_step)
    if clock.offset_s is None:
        return Decision(NAME, Status.UNKNOWN, "the node's clock could not be read", evidence, warnings)
    if clock.synchronized.value is None:
        reason = because("the state of the time service", clock.synchronized)
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    unseen = time_daemon.unseen(facts, node)
    if clock.source == "chrony" and unseen is not None:
        return Decision(NAME, Status.UNKNOWN, unseen, evidence, warnings)
    reason = f"{clock.source} synchronizes the clock, {time_offset.span(clock.offset_s)} off"
    return Decision(NAME, Status.MET, reason, evidence, warnings)


def _steps(facts: NodeFacts, node: Node, *, is_wrong: bool) -> tuple[Step, ...]:
    """Return the steps that leave one time service running, configure its servers, and wait for it.

    A clock that is wrong by days and not synchronized is set first.
    """
    if not facts.system.systemd_running:
        return ()
    found: list[Step] = []
    offset = facts.clock.offset_s
    # A clock that is synchronized with a time server is never set to this machine's time: either may be wrong.
    far = offset is not None and abs(offset) > time_offset.DAY_S and not time_offset.in_step(facts, node)
    if offset is not None and far and is_wrong:
        found.append(time_daemon.set_clock(facts.gathered_at, offset))
    there = time_daemon.daemons(facts)
    if not there:
        # The next round configures the servers, in the files that the package installs.
        return (*found, *time_daemon.bring(facts, node))
    running = [daemon for daemon in there if daemon.runs]
    chosen = (running or there)[0]
    found += [time_daemon.quiet(loser) for loser in running[1:]]
    if time_daemon.serves(node) and chosen.kind != "chrony":
        return tuple(found)
    found += time_daemon.configure(facts, node, chosen)
    found += time_daemon.started(chosen)
    # A node that serves its own time does not synchronize with a server, so waiting would fail.
    if not (time_daemon.serves(node) and not time_daemon.others(node)):
        found.append(time_daemon.wait(chosen.kind))
    return tuple(found)
