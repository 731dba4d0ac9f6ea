"""The argv of the program behind ``locate``, and the verdict that its rates lead to.

Each rank writes its own rates only. They are put through the same search here, so that a node cannot name another one.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from clusterctl.benchmarks import cpu_quota
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.cpu_quota import RankQuotas
from clusterctl.text.foreign import NotUnderstood, json_value, lines
from clusterctl.text.visible import one_line_texts
from clusterctl.workloads.locate import alone, cause
from clusterctl.workloads.locate import ends as both_ends
from clusterctl.workloads.locate import intermittent as intermittent_of
from clusterctl.workloads.locate.alone import Alone, Window
from clusterctl.workloads.locate.cause import Examined
from clusterctl.workloads.locate.ends import Ends, EndsApart
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.intermittent import Intermittent
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.verdict import LocateVerdict, SuspectState, Values
from clusterctl.workloads.rank_values import DEVICE_CHARACTERS
from clusterctl.workloads.records import MARK

_LOW = 0.85
"""A window below this share of the rank's best one is marked: clocks alone differ by a few percent."""


@dataclass(frozen=True, slots=True)
class LowWindow:
    """One window and measure, the ranks that were slow in it, and the lowest share of a rank's own best window.

    A rank that is slow in all windows is the judge's (``workloads/locate/alone.py``). One that is slow in some of them
    shared its device or was throttled meanwhile; its rates of the other windows are those that count.
    """

    window: int
    measure: str
    ranks: tuple[int, ...]
    ratio: float


def low_windows(windows: Sequence[Window]) -> tuple[LowWindow, ...]:
    """Return the low windows in order; the first has number 1."""
    best: Window = {}
    for window in windows:
        for key, rate in window.items():
            best[key] = max(rate, best.get(key, 0.0))
    found = []
    for number, window in enumerate(windows, 1):
        shares = {key: rate / best[key] for key, rate in window.items() if best[key] > 0}
        low = {key: share for key, share in shares.items() if share < _LOW}
        for measure in sorted({measure for measure, _ in low}):
            of_measure = {rank: share for (one, rank), share in low.items() if one == measure}
            found.append(LowWindow(number, measure, tuple(sorted(of_measure)), min(of_measure.values())))
    return tuple(found)


SEED = 20260
"""A fixed seed: the same rates lead to the same rounds and verdict on every machine."""
_MOST = 1e18
_MOST_RECORDS = 100_000
_LEAST_WELL = 2
"""So many ranks with the device of a slow one must be well before its device does not explain it."""
_Sent = TypeVar("_Sent")
_Ended = TypeVar("_Ended")


@dataclass(frozen=True, slots=True)
class Unlike:
    """A rank with another device than ``most`` ranks; ``peers``: how many ranks have its device."""

    rank: int
    device: str
    most: str
    peers: int


@dataclass(frozen=True, slots=True)
class Located:
    """What one run of ``locate`` found; ``verdict`` is None if the run did not reach its end."""

    fleet: RankFleet
    verdict: LocateVerdict | None = None
    examined: tuple[Examined, ...] = ()
    """What each named unit or link is slow at."""
    alone: tuple[Alone, ...] = ()
    windows: int = 0
    low_windows: tuple[LowWindow, ...] = ()
    intermittent: tuple[Intermittent, ...] = ()
    repeated: int = 0
    """Rounds of ``--for``."""
    devices: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    unlike: tuple[Unlike, ...] = ()
    quotas: tuple[RankQuotas | None, ...] = ()
    """The CPU quotas of each rank; empty if the run did not reach its end."""
    apart: tuple[EndsApart, ...] = ()
    """Pairs whose ends report different rates, which therefore say nothing about their nodes."""

    @property
    def suspected(self) -> frozenset[str]:
        """Return the nodes that were named: alone, in pairs, as an end of a link, with ``--for``, or as at fault."""
        findings = self.verdict.named if self.verdict is not None else ()
        alone_ = [self.fleet.where(one.rank)[0] for one in self.alone if one.status is SuspectState.NAMED]
        nodes = (
            *alone_,
            *(node for one in findings for node in one.nodes),
            *(one.node for one in self.intermittent),
            *(one.at_fault for one in self.apart if one.at_fault is not None),
        )
        return frozenset(self.fleet.names[node] for node in nodes)


def words(
    program: Sequence[str],
    backend: str,
    fleet: Sequence[int],
    rails: Sequence[str],
    timeout_s: float,
    repeat_s: float = 0,
    *,
    pairs_only: bool = False,
    message_bytes: int | None = None,
) -> tuple[str, ...]:
    """Return the command of every rank; ``fleet``: the index of the node of each rank."""
    chosen = (*program, "--backend", backend, "--nodes", ",".join(map(str, fleet)), "--seed", str(SEED))
    repeated = ("--seconds", f"{repeat_s:g}") if repeat_s else ()
    chosen = (*chosen, "--pairs-only") if pairs_only else chosen
    chosen = (*chosen, "--bytes", str(message_bytes)) if message_bytes is not None else chosen
    return (*chosen, *(("--rails", ",".join(rails)) if rails else ()), *repeated, "-T", f"{timeout_s:g}")


def parse(
    stdout_by_rank: Mapping[int, str], node_of_rank: Sequence[str], *, pairs_only: bool = False
) -> Located:
    """Return the verdict for the records in the ranks' stdout; ``node_of_rank``: the names of the launch.

    ``pairs_only``: the run examined no causes.
    """
    fleet = RankFleet.of(node_of_rank)
    try:
        own = [_own_records(stdout_by_rank.get(rank, ""), rank) for rank in range(len(node_of_rank))]
        return _replayed(own, fleet, pairs_only=pairs_only)
    except (NotUnderstood, AttributeError, LookupError, TypeError, ValueError) as error:
        fault = Fault(
            FaultKind.UNPARSABLE,
            f"the rates of the run cannot be used: {error!s:.200}",
            hint="each rank's records are in its rank-N.log below logs/ in the run folder",
        )
        return Located(fleet, faults=(fault,))


@dataclass(slots=True)
class _OwnRecords:
    """What one rank wrote about itself: its device, its rates alone, and whom it met in each round of each kind."""

    rank: int
    device: str = ""
    windows: list[dict[str, float]] = field(default_factory=list)
    met: dict[str, list[tuple[int, float] | None]] = field(
        default_factory=lambda: {kind: [] for kind in ("round", "cause", "repeated")}
    )
    quota: object = None
    ended: bool = False


def _own_records(text: str, rank: int) -> _OwnRecords:
    """Read the records of one rank; those that name another rank do not count."""
    own = _OwnRecords(rank)
    count = 0
    for line in lines(text):
        before, mark, rest = line.partition(MARK)
        if not mark or before.strip():
            continue
        record = one_line_texts(json_value(rest))
        if not isinstance(record, dict) or record.get("rank") != rank or type(record["rank"]) is not int:
            continue
        kind = str(record.get("kind", "")).removeprefix("locate-")
        if kind == "start":
            own.device = _device(record["device"])
        elif kind == "window":
            own.windows.append({str(name): _rate(rate) for name, rate in record["rates"].items()})
        elif kind in own.met:
            own.met[kind] += map(_met, record["met"])
        elif kind == "end":
            own.quota, own.ended = record.get("quota"), True
        count = len(own.windows) + sum(map(len, own.met.values()))
        if count > _MOST_RECORDS:
            raise NotUnderstood(f"rank {rank} wrote more than {_MOST_RECORDS} rates")
    return own


def _device(value: object) -> str:
    if not isinstance(value, str):
        raise NotUnderstood("a device is not a text")
    return value[:DEVICE_CHARACTERS]


def _met(entry: object) -> tuple[int, float] | None:
    if entry is None:
        return None
    if not isinstance(entry, list) or len(entry) != 2 or type(entry[0]) is not int:
        raise NotUnderstood(f"{entry!r:.40} is not a rank and its rate")
    return entry[0], _rate(entry[1])


def _replayed(own: Sequence[_OwnRecords], fleet: RankFleet, *, pairs_only: bool) -> Located:
    windows = _windows(own)
    ends = _EndsOfRun(own, fleet)
    known = windows and all(one.device for one in own)
    devices = tuple(one.device for one in own) if known else ()
    slow = _drive(alone.judge(devices), windows, lambda window, _: window) if windows else ()
    rounds = ends.count("round")
    verdict = _drive(
        search(len(fleet.ranks), SEED), rounds, lambda at, planned: ends.values("round", at, planned)
    )
    examined: tuple[Examined, ...] | None = () if pairs_only else None
    if verdict is not None and not pairs_only:
        examined = _drive(
            cause.examine(verdict.named, len(fleet.ranks), SEED),
            ends.count("cause"),
            lambda at, probe: ends.values("cause", at, probe.planned, probe.place),
        )
    silent = [one.rank for one in own if not one.ended]
    if verdict is None or slow is None or examined is None or silent:
        said = (
            f": rank {silent[0]} did not write its last record" if silent and len(silent) < len(own) else ""
        )
        fault = Fault(
            FaultKind.UNPARSABLE,
            f"the run ended after {len(windows)} windows and {len(rounds)} rounds, before its verdict{said}",
            hint="see the ranks' logs below logs/ in the run folder",
        )
        return Located(fleet, devices=devices, windows=len(windows), faults=(fault,))
    seen = [
        ends.values("repeated", at, intermittent_of.plan(len(fleet.ranks), at))
        for at in ends.count("repeated")
    ]
    often = intermittent_of.judge(seen)
    unlike = _unlike(devices)
    verdict, often = _without_unlike(verdict, often, devices, fleet)
    return Located(
        fleet, verdict, examined, slow, len(windows), low_windows(windows), often, len(seen), devices,
        unlike=unlike, quotas=cpu_quota.of_reports(one.quota for one in own), apart=both_ends.apart(ends.rounds),
    )  # fmt: skip


class _EndsOfRun:
    """The rates of all pairs, each from the records of both of its ranks."""

    def __init__(self, own: Sequence[_OwnRecords], fleet: RankFleet) -> None:
        self._own, self._fleet = own, fleet
        self.rounds: list[Ends] = []
        """The rounds of the search, as both ends report them."""

    def count(self, kind: str) -> range:
        """Return the rounds of a kind; raise NotUnderstood if a rank wrote more or fewer than most."""
        counts = [len(one.met[kind]) for one in self._own]
        most = statistics.mode(counts)
        strange = next((rank for rank, count in enumerate(counts) if count != most), None)
        if strange is not None and all(one.ended for one in self._own):
            raise NotUnderstood(f"rank {strange} wrote {counts[strange]} rounds, and most ranks {most}")
        return range(min(counts))

    def values(self, kind: str, at: int, planned: Sequence[Pair], place: int | None = None) -> Values:
        """Return what both ends agree on; raise NotUnderstood if a rank met another one than its rates lead to."""
        found: Ends = {}
        for key, (low, high) in self._fleet.meetings(planned, place).items():
            found[key] = self._rate_with(kind, at, low, high), self._rate_with(kind, at, high, low)
        if kind == "round":
            self.rounds.append(found)
        return both_ends.agreed(found)

    def _rate_with(self, kind: str, at: int, rank: int, peer: int) -> float:
        met = self._own[rank].met[kind][at]
        if met is None or met[0] != peer:
            other = "none" if met is None else f"rank {met[0]}"
            raise NotUnderstood(
                f"rank {rank} met {other} where the rates that the ranks wrote lead to rank {peer}: "
                "a rank sent other rates than it wrote"
            )
        return met[1]


def _windows(own: Sequence[_OwnRecords]) -> list[alone.Window]:
    """Return the rates of each window; raise NotUnderstood if the ranks wrote different ones."""
    count = min(len(one.windows) for one in own) if own else 0
    found = []
    for at in range(count):
        measures = own[0].windows[at].keys()
        for one in own:
            if one.windows[at].keys() != measures:
                raise NotUnderstood(f"rank {one.rank} measured something else alone than rank 0")
        found.append({(name, one.rank): one.windows[at][name] for name in measures for one in own})
    if all(one.ended for one in own) and any(len(one.windows) != count for one in own):
        raise NotUnderstood("the ranks wrote different numbers of windows")
    return found


def _unlike(devices: Sequence[str]) -> tuple[Unlike, ...]:
    """Return the ranks with another device than most, and those whose device too few ranks have to be compared."""
    if len(devices) < alone.LEAST_PEERS:
        return ()
    peers = Counter(devices)
    most = peers.most_common(1)[0][0]
    return tuple(
        Unlike(rank, device, most, peers[device])
        for rank, device in enumerate(devices)
        if device != most or peers[device] < alone.LEAST_PEERS
    )


def _without_unlike(
    verdict: LocateVerdict, often: Sequence[Intermittent], devices: Sequence[str], fleet: RankFleet
) -> tuple[LocateVerdict, tuple[Intermittent, ...]]:
    """Leave a slow unit open if no two units with its device are well: it may be slower by design."""
    slow = {(one.nodes[0], one.place) for one in verdict.named if not one.is_link}
    slow |= {(one.node, one.place) for one in often}
    well: Counter[str] = Counter()
    device_of = {fleet.where(rank): device for rank, device in enumerate(devices)}
    for unit, device in device_of.items():
        well[device] += unit not in slow
    apart = {unit for unit, device in device_of.items() if unit in slow and well[device] < _LEAST_WELL}
    if len(set(devices)) < 2:
        apart = set()
    findings = tuple(
        replace(one, status=SuspectState.OPEN)
        if not one.is_link and (one.nodes[0], one.place) in apart and one.status is SuspectState.NAMED
        else one
        for one in verdict.findings
    )
    kept = tuple(one for one in often if (one.node, one.place) not in apart)
    return replace(verdict, findings=findings), kept


def _drive(
    steps: Generator[Any, _Sent, _Ended], recorded: Sequence[Any], value: Callable[[Any, Any], _Sent]
) -> _Ended | None:
    """Send what was recorded to a judge; None if it ends before, or needs more."""
    try:
        wanted = next(steps)
        for index, record in enumerate(recorded):
            try:
                wanted = steps.send(value(record, wanted))
            except StopIteration as ended:
                result: _Ended = ended.value
                if index + 1 == len(recorded):
                    return result
                raise NotUnderstood(
                    f"{len(recorded)} records where {index + 1} lead to the verdict"
                ) from None
    except StopIteration as ended:
        return ended.value if not recorded else None
    return None


def _rate(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value <= _MOST:  # type: ignore[operator]
        raise NotUnderstood(f"{value!r:.40} is not a rate")
    return float(value)  # type: ignore[arg-type]
