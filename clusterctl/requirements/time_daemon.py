"""The services that keep a node's clock: which run, what they are told, and the steps that change that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clusterctl.facts.configuration import KEPT
from clusterctl.facts.model import ReadStatus
from clusterctl.requirements.base import Command, EnableUnit, RestartUnit, Step, WriteBlock, WriteFile
from clusterctl.requirements.packages import install
from clusterctl.requirements.rendering import render

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, Unit
    from clusterctl.inventory.model import Node

Kind = Literal["chrony", "ntpd", "timesyncd"]

UNITS: dict[Kind, tuple[str, ...]] = {
    "chrony": ("chrony.service", "chronyd.service"),
    "ntpd": ("ntpsec.service", "ntp.service", "ntpd.service", "openntpd.service"),
    "timesyncd": ("systemd-timesyncd.service",),
}
"""In the order of preference: one that others may ask the time comes before one that only asks."""

_PTP4L = "ptp4l.service"
PTP_UNITS = ("timemaster.service", "phc2sys.service", _PTP4L)
"""linuxptp's: the first two keep the system's clock; ptp4l does where the network card has none of its own."""

_TIMESYNCD = "/etc/systemd/timesyncd.conf.d/90-clusterctl.conf"
_CHRONY_CONF = "/etc/chrony.conf"
_VENDORS = "/usr/etc/chrony"
"""SUSE's files from 2026 on: its chronyd.service takes this chrony.conf while /etc has none (chrony.spec)."""
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
    """Return the node's time services, the preferred first; aliases of one unit count once."""
    found: dict[str, Daemon] = {}
    for kind, names in UNITS.items():
        for name in names:
            unit = facts.services.unit(name)
            if unit is not None and unit.load != "masked" and not any(d.kind == kind for d in found.values()):
                found[unit.name] = Daemon(kind, unit)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Ptp:
    """What keeps the clock by PTP: a unit's name, or ``linuxptp`` where only its traces are seen."""

    name: str
    runs: bool


def ptp(facts: NodeFacts) -> Ptp | None:
    """Return what keeps the clock by PTP, or is enabled to; None where an NTP service does, or nothing.

    ptp4l beside an NTP service keeps a network card's clock only, which chrony may take as its reference.
    """
    ntp = any(daemon.runs for daemon in daemons(facts))
    traces = facts.clock.source == "ptp"
    units = [unit for name in PTP_UNITS if (unit := facts.services.unit(name)) is not None]
    running = [unit.name for unit in units if unit.active in ("active", "activating", "reloading")]
    keeper = next((name for name in running if name != _PTP4L), None)
    if keeper is not None:
        return Ptp(keeper, True)
    # ptp4l does not make up for a phc2sys that is to hand its time on and is down.
    down = [unit.name for unit in units if unit.enabled == "enabled" and unit.name not in running]
    down = [name for name in down if name != _PTP4L or not traces]
    if down and not ntp:
        return Ptp(down[0], False)
    if running and not ntp:
        return Ptp(_PTP4L, True)
    return Ptp("linuxptp", True) if traces else None


def serves(node: Node) -> bool:
    """Whether the inventory names this node itself as a time server of the others."""
    return bool({node.name, node.address} & set(node.requirements.time_sync.servers))


def others(node: Node) -> tuple[str, ...]:
    """Return the servers that the node is to ask: all but itself."""
    return tuple(s for s in node.requirements.time_sync.servers if s not in (node.name, node.address))


def missing(facts: NodeFacts, node: Node, kind: Kind) -> str | None:
    """Say what the service's configuration lacks of what the inventory wants; None when nothing."""
    folders = {"chrony": "/etc/chrony", "ntpd": "/etc/ntp", "timesyncd": "/etc/systemd/timesyncd"}
    also = (_VENDORS,) if kind == "chrony" else ()
    texts = [line.text for line in facts.host_config if line.path.startswith((folders[kind], *also))]
    lines = [text.lower().split() for text in texts]
    asked: set[str] = set()
    if kind == "timesyncd":
        for text in texts:
            name, equals, value = text.partition("=")
            if equals and name.strip() == "NTP":
                # An empty one takes back those before it (timesyncd.conf(5)).
                asked = {*asked, *value.lower().split()} if value.strip() else set()
    else:
        asked = {words[1] for words in lines if words[0] in ("server", "pool", "peer") and len(words) > 1}
    lacking = [server for server in others(node) if server.lower() not in asked]
    if lacking:
        return f"{kind} is not told to ask {', '.join(lacking)}"
    if serves(node) and kind != "chrony":
        return f"the inventory wants this node to serve the time: install chrony in place of {kind}"
    if serves(node) and not ({"local", "allow"} <= {words[0] for words in lines}):
        return f"{kind} does not serve the time to the other nodes"
    return None


def unseen(facts: NodeFacts, node: Node) -> str | None:
    """Say why it is not known whom chrony asks, where the inventory says whom it is to ask."""
    kept = any(note.name == KEPT and note.status is ReadStatus.DENIED for note in facts.sections)
    if not kept or not node.requirements.time_sync.servers:
        return None
    return "whom chrony asks is not known: its configuration needs root to be read"


def bring(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return the steps that install chrony, for a node that has no time service at all."""
    step = install(facts, node, "Install chrony", "chrony")
    if step is None:
        return ()
    unit = "chrony.service" if step.manager == "apt" else "chronyd.service"
    return (step, EnableUnit(f"Enable and start {unit}", unit))


def configure(facts: NodeFacts, node: Node, daemon: Daemon) -> tuple[Step, ...]:
    """Return the steps that tell the service whom to ask, and let it read that."""
    if missing(facts, node, daemon.kind) is None:
        return ()
    restart = RestartUnit(f"Restart {daemon.unit.name}", daemon.unit.name)
    if daemon.kind == "timesyncd":
        text = render("timesync", "timesyncd.conf", servers=others(node))
        return (WriteFile("Tell systemd-timesyncd whom to ask the time", _TIMESYNCD, text), restart)
    text = render("timesync", "chrony.conf", servers=others(node), serves=serves(node))
    said = f"Tell {daemon.kind} whom to ask the time"
    folder = _chrony_folder(facts) if daemon.kind == "chrony" else None
    if folder is not None:
        return (WriteFile(said, f"{folder}/90-clusterctl.conf", text), restart)
    # No folder of its own to read: a block in the file that the distribution ships.
    return (WriteBlock(said, _main_file(facts, daemon.kind), "time-sync", text), restart)


def _chrony_folder(facts: NodeFacts) -> str | None:
    """Return the folder of /etc from which chrony.conf reads further files; None where it reads none."""
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
    """Return the step that has the service run, now and after a boot; none where it does."""
    if daemon.runs and daemon.unit.enabled == "enabled":
        return ()
    return (EnableUnit(f"Enable and start {daemon.unit.name}", daemon.unit.name),)


def quiet(loser: Daemon) -> Command:
    """Return the step that turns off a service which another one fights; undo turns it on again."""
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
    """Return the step that waits (at most a minute) until the service is in step with a server."""
    tests = {
        "chrony": "chronyc waitsync 1 0 0 1",
        "timesyncd": "[ -e /run/systemd/timesync/synchronized ]",
        "ntpd": "ntpq -c 'rv 0 leap' | grep -q 'leap=0[012]'",
    }
    test = tests[daemon_kind]
    return Command(
        "Wait until the clock is in step with a time server",
        (
            "sh",
            "-c",
            f"for i in $(seq 30); do {test} && exit 0; sleep 2; done; echo 'no time server answers' >&2; exit 1",
        ),
        undo=None,
        guard=("sh", "-c", test),
        timeout_s=120.0,
    )


def set_clock(gathered_at: float, offset_s: float) -> Command:
    """Return the step that sets a clock that is days off by this machine's; a clock has no way back.

    Done once only: the guard holds while the clock is within the day after it was read.
    """
    first = int(gathered_at) - 3600
    return Command(
        "Set the clock by this machine's, so that certificates and signatures are valid",
        ("sh", "-c", f'date -u -s "@$(($(date +%s) - {round(offset_s)}))"'),
        undo=None,
        guard=("sh", "-c", f'n=$(date +%s) && [ "$n" -ge {first} ] && [ "$n" -lt {first + 90000} ]'),
        timeout_s=30.0,
    )
