"""Find the services that synchronize a node's clock, and build the steps that configure them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clusterctl.facts.base import ReadStatus
from clusterctl.facts.subjects.configuration import KEPT
from clusterctl.requirements.packages import install
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import Command, EnableUnit, RestartUnit, Step, WriteBlock, WriteFile

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.services import Unit
    from clusterctl.inventory.model import Node

Kind = Literal["chrony", "ntpd", "timesyncd"]

UNITS: dict[Kind, tuple[str, ...]] = {
    "chrony": ("chrony.service", "chronyd.service"),
    "ntpd": ("ntpsec.service", "ntp.service", "ntpd.service", "openntpd.service"),
    "timesyncd": ("systemd-timesyncd.service",),
}
"""In order of preference: services that can serve the time to others come before those that only query it."""

_PTP4L = "ptp4l.service"
PTP_UNITS = ("timemaster.service", "phc2sys.service", _PTP4L)
"""linuxptp's units: the first two set the system clock; ptp4l does when the network card has no clock."""

_TIMESYNCD = "/etc/systemd/timesyncd.conf.d/90-clusterctl.conf"
_CHRONY_CONF = "/etc/chrony.conf"
_VENDORS = "/usr/etc/chrony"
"""SUSE's files from 2026 on: its chronyd.service reads this chrony.conf while /etc has no file (chrony.spec)."""
_CHRONY_FOLDERS = ("/etc/chrony/conf.d", "/etc/chrony.d")


@dataclass(frozen=True, slots=True)
class Daemon:
    """A time service that the node has."""

    kind: Kind
    unit: Unit

    @property
    def runs(self) -> bool:
        return self.unit.active in ("active", "activating", "reloading")


def daemons(facts: NodeFacts) -> tuple[Daemon, ...]:
    """Return the node's time services in order of preference, at most one of each kind."""
    found: dict[str, Daemon] = {}
    for kind, names in UNITS.items():
        for name in names:
            unit = facts.services.unit(name)
            if unit is not None and unit.load != "masked" and not any(d.kind == kind for d in found.values()):
                found[unit.name] = Daemon(kind, unit)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Ptp:
    """The PTP service of the clock: a unit's name, or ``linuxptp`` if only its effects are visible."""

    name: str
    runs: bool


def ptp(facts: NodeFacts) -> Ptp | None:
    """Return the PTP service that sets the clock or is enabled to; None with an NTP service, or no service.

    Together with an NTP service, ptp4l sets only a network card's clock, which chrony may use as its reference.
    """
    ntp = any(daemon.runs for daemon in daemons(facts))
    traces = facts.clock.source == "ptp"
    units = [unit for name in PTP_UNITS if (unit := facts.services.unit(name)) is not None]
    running = [unit.name for unit in units if unit.active in ("active", "activating", "reloading")]
    keeper = next((name for name in running if name != _PTP4L), None)
    if keeper is not None:
        return Ptp(keeper, True)
    # A running ptp4l is not enough if phc2sys, which copies its time to the system clock, is enabled but down.
    down = [unit.name for unit in units if unit.enabled == "enabled" and unit.name not in running]
    down = [name for name in down if name != _PTP4L or not traces]
    if down and not ntp:
        return Ptp(down[0], False)
    if running and not ntp:
        return Ptp(_PTP4L, True)
    return Ptp("linuxptp", True) if traces else None


def serves(node: Node) -> bool:
    """Return whether the inventory names this node itself as a time server of the other nodes."""
    return bool({node.name, node.address} & set(node.requirements.time_sync.servers))


def others(node: Node) -> tuple[str, ...]:
    """Return the servers that the node uses: all in the inventory except itself."""
    return tuple(s for s in node.requirements.time_sync.servers if s not in (node.name, node.address))


def missing(facts: NodeFacts, node: Node, kind: Kind) -> str | None:
    """Return what the service's configuration lacks to match the inventory; None when it lacks nothing."""
    folders = {"chrony": "/etc/chrony", "ntpd": "/etc/ntp", "timesyncd": "/etc/systemd/timesyncd"}
    also = (_VENDORS,) if kind == "chrony" else ()
    texts = [line.text for line in facts.host_config if line.path.startswith((folders[kind], *also))]
    lines = [text.lower().split() for text in texts]
    asked: set[str] = set()
    if kind == "timesyncd":
        for text in texts:
            name, equals, value = text.partition("=")
            if equals and name.strip() == "NTP":
                # An empty value clears the earlier ones (timesyncd.conf(5)).
                asked = {*asked, *value.lower().split()} if value.strip() else set()
    else:
        asked = {words[1] for words in lines if words[0] in ("server", "pool", "peer") and len(words) > 1}
    lacking = [server for server in others(node) if server.lower() not in asked]
    if lacking:
        return f"{kind} is not configured to use {', '.join(lacking)}"
    if serves(node) and kind != "chrony":
        return f"the inventory requires this node to serve the time: install chrony instead of {kind}"
    if serves(node) and not ({"local", "allow"} <= {words[0] for words in lines}):
        return f"{kind} does not serve the time to the other nodes"
    return None


def unseen(facts: NodeFacts, node: Node) -> str | None:
    """Return why chrony's servers are unknown although the inventory sets them; None when they are known."""
    kept = any(note.name == KEPT and note.status is ReadStatus.DENIED for note in facts.sections)
    if not kept or not node.requirements.time_sync.servers:
        return None
    return "the servers of chrony are unknown: only root can read its configuration"


def bring(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return the steps that install chrony on a node without a time service; empty if that is not possible."""
    step = install(facts, node, "Install chrony", "chrony")
    if step is None:
        return ()
    unit = "chrony.service" if step.manager == "apt" else "chronyd.service"
    return (step, EnableUnit(f"Enable and start {unit}", unit))


def configure(facts: NodeFacts, node: Node, daemon: Daemon) -> tuple[Step, ...]:
    """Return the steps that configure the service's time servers and restart it."""
    if missing(facts, node, daemon.kind) is None:
        return ()
    restart = RestartUnit(f"Restart {daemon.unit.name}", daemon.unit.name)
    if daemon.kind == "timesyncd":
        text = render("timesync", "timesyncd.conf", servers=others(node))
        return (WriteFile("Configure the time servers of systemd-timesyncd", _TIMESYNCD, text), restart)
    text = render("timesync", "chrony.conf", servers=others(node), serves=serves(node))
    said = f"Configure the time servers of {daemon.kind}"
    folder = _chrony_folder(facts) if daemon.kind == "chrony" else None
    if folder is not None:
        return (WriteFile(said, f"{folder}/90-clusterctl.conf", text), restart)
    # The service reads no drop-in directory, so the block goes into the file that the distribution ships.
    return (WriteBlock(said, _main_file(facts, daemon.kind), "time-sync", text), restart)


def _chrony_folder(facts: NodeFacts) -> str | None:
    """Return the directory of /etc from which chrony.conf includes files; None when it includes no directory."""
    for line in facts.host_config:
        word, *places = line.text.split()
        reads = {"confdir": "{}", "include": "{}/*.conf"}.get(word.lower())
        for folder in _CHRONY_FOLDERS:
            if reads is not None and reads.format(folder) in [place.rstrip("/") for place in places]:
                return folder
    return None


def _main_file(facts: NodeFacts, kind: Kind) -> str:
    known = ("/etc/chrony/chrony.conf", _CHRONY_CONF) if kind == "chrony" else ("/etc/ntpsec/ntp.conf",)
    there = {line.path for line in facts.host_config}
    fallback = _CHRONY_CONF if kind == "chrony" else "/etc/ntp.conf"
    return next((path for path in known if path in there), fallback)


def started(daemon: Daemon) -> tuple[Step, ...]:
    """Return the step that starts the service now and at boot; empty when it already runs and is enabled."""
    if daemon.runs and daemon.unit.enabled == "enabled":
        return ()
    return (EnableUnit(f"Enable and start {daemon.unit.name}", daemon.unit.name),)


def quiet(loser: Daemon) -> Command:
    """Return the step that turns off a service that conflicts with another one; undo turns it on again."""
    name = loser.unit.name
    was_enabled = loser.unit.enabled == "enabled"
    undo = ("systemctl", "enable", "--now", name) if was_enabled else ("systemctl", "start", name)
    return Command(
        f"Turn off {name}",
        ("systemctl", "disable", "--now", name),
        undo=undo,
        guard=("sh", "-c", f"! systemctl is-active -q {name} && ! systemctl is-enabled -q {name}"),
        timeout_s=120.0,
    )


def wait(daemon_kind: Kind) -> Command:
    """Return the step that waits (at most a minute) until the service is synchronized with a server."""
    tests = {
        "chrony": "chronyc waitsync 1 0 0 1",
        "timesyncd": "[ -e /run/systemd/timesync/synchronized ]",
        "ntpd": "ntpq -c 'rv 0 leap' | grep -q 'leap=0[012]'",
    }
    test, no_answer = tests[daemon_kind], "echo 'no time server answers' >&2; exit 1"
    return Command(
        "Wait until the clock is synchronized with a time server",
        (
            "sh",
            "-c",
            # Each try of chronyc prints a line that does not tell the cause.
            f"for i in $(seq 30); do {{ {test}; }} >/dev/null 2>&1 && exit 0; sleep 2; done; {no_answer}",
        ),
        undo=None,
        guard=("sh", "-c", test),
        timeout_s=120.0,
    )


def set_clock(gathered_at: float, offset_s: float) -> Command:
    """Return the step that sets a clock that is days off to this machine's time; it cannot be undone.

    ``gathered_at`` and ``offset_s`` are in seconds. The step runs only once: its guard succeeds while the clock is
    within the day after it was read.
    """
    first = int(gathered_at) - 3600
    return Command(
        "Set the clock to this machine's time, so that certificates and signatures are valid",
        ("sh", "-c", f'date -u -s "@$(($(date +%s) - {round(offset_s)}))"'),
        undo=None,
        guard=("sh", "-c", f'n=$(date +%s) && [ "$n" -ge {first} ] && [ "$n" -lt {first + 90000} ]'),
        timeout_s=30.0,
    )
