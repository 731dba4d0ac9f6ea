"""The argv of the program behind ``locate``, and the verdict that its rates lead to.

The program writes rates only. They are put through the same search here, so that a node cannot name another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from clusterctl.benchmarks import cpu_quota
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.cpu_quota import RankQuotas
from clusterctl.benchmarks.locate_windows import LowWindow, low_windows
from clusterctl.foreign import NotUnderstood, json_value, lines
from clusterctl.visible import one_line_texts
from clusterctl.workloads.locate import alone, cause
from clusterctl.workloads.locate import intermittent as intermittent_of
from clusterctl.workloads.locate.alone import Alone
from clusterctl.workloads.locate.cause import Examined
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.intermittent import Intermittent
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.verdict import LocateVerdict, SuspectState, Values
from clusterctl.workloads.records import MARK

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

    @property
    def suspected(self) -> frozenset[str]:
        """Return the nodes that were named, alone, in pairs, as the end of a link, or with ``--for``."""
        findings = self.verdict.named if self.verdict is not None else ()
        alone_ = [self.fleet.where(one.rank)[0] for one in self.alone if one.status is SuspectState.NAMED]
        nodes = (
            *alone_,
            *(node for one in findings for node in one.nodes),
            *(one.node for one in self.intermittent),
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


def parse(text: str, node_of_rank: Sequence[str], *, pairs_only: bool = False) -> Located:
    """Return the verdict for the records in rank 0's stdout; ``node_of_rank``: the names of the launch.

    ``pairs_only``: the run examined no causes.
    """
    fleet = RankFleet.of(node_of_rank)
    try:
        return _replayed(_records(text), fleet, len(node_of_rank), pairs_only=pairs_only)
    except (NotUnderstood, AttributeError, LookupError, TypeError, ValueError) as error:
        fault = Fault(
            FaultKind.UNPARSABLE,
            f"the rates of the run cannot be used: {error!s:.200}",
            hint="the records are in rank-0.log below logs/ in the run folder",
        )
        return Located(fleet, faults=(fault,))


def _records(text: str) -> list[dict[str, Any]]:
    found = []
    for line in lines(text):
        before, mark, rest = line.partition(MARK)
        if mark and not before.strip():
            record = one_line_texts(json_value(rest))
            if isinstance(record, dict) and str(record.get("kind", "")).startswith("locate-"):
                found.append(record)
        if len(found) > _MOST_RECORDS:
            raise NotUnderstood(f"more than {_MOST_RECORDS} records")
    return found


def _replayed(
    records: Sequence[dict[str, Any]], fleet: RankFleet, ranks: int, *, pairs_only: bool
) -> Located:
    kinds = [record["kind"] for record in records]
    devices: list[Any] = next(
        (record["devices"] for record in records if record["kind"] == "locate-devices"), []
    )
    if len(devices) not in (0, ranks) or not all(isinstance(device, str) for device in devices):
        raise NotUnderstood(f"{len(devices)} devices for {ranks} ranks")
    windows = [_window(record["rates"], ranks) for record in records if record["kind"] == "locate-window"]
    rounds = [record["rates"] for record in records if record["kind"] == "locate-round"]
    slow = _drive(alone.judge(devices), windows, lambda window, _: window) if windows else ()
    verdict = _drive(search(len(fleet.ranks), SEED), rounds, _values)
    tests = [record["rates"] for record in records if record["kind"] == "locate-cause"]
    examined: tuple[Examined, ...] | None = () if pairs_only else None
    if verdict is not None and not pairs_only:
        probes = cause.examine(verdict.named, len(fleet.ranks), SEED)
        examined = _drive(probes, tests, lambda rates, probe: _values(rates, probe.planned))
    if verdict is None or slow is None or examined is None or "locate-end" not in kinds:
        fault = Fault(
            FaultKind.UNPARSABLE,
            f"the run ended after {len(windows)} windows and {len(rounds)} rounds, before its verdict",
            hint="see the ranks' logs below logs/ in the run folder",
        )
        return Located(fleet, devices=tuple(devices), windows=len(windows), faults=(fault,))
    again = [record["rates"] for record in records if record["kind"] == "locate-repeated"]
    seen = [
        _values(rates, intermittent_of.plan(len(fleet.ranks), number)) for number, rates in enumerate(again)
    ]
    often = intermittent_of.judge(seen)
    unlike = _unlike(devices)
    verdict, often = _without_unlike(verdict, often, devices, fleet)
    return Located(
        fleet, verdict, examined, slow, len(windows), low_windows(windows), often, len(seen), tuple(devices),
        unlike=unlike, quotas=_quotas(records, ranks),
    )  # fmt: skip


def _quotas(records: Sequence[dict[str, Any]], ranks: int) -> tuple[RankQuotas | None, ...]:
    reports = next((record["ranks"] for record in records if record["kind"] == "locate-quotas"), None)
    if reports is None:
        return (None,) * ranks
    if not isinstance(reports, list) or len(reports) != ranks:
        raise NotUnderstood(f"the CPU quotas of {ranks} ranks were expected")
    return cpu_quota.of_reports(reports)


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


def _window(rates: dict[str, list[Any]], ranks: int) -> alone.Window:
    if not all(len(own) == ranks for own in rates.values()):
        raise NotUnderstood("a window without the rates of all ranks")
    return {(measure, rank): _rate(own[rank]) for measure, own in rates.items() for rank in range(ranks)}


def _values(rates: Sequence[Any], planned: Sequence[Pair]) -> Values:
    allowed, values = set(planned), {}
    for low, high, place, rate in rates:
        if (low, high) not in allowed or type(place) is not int or not 0 <= place < 1024:
            raise NotUnderstood(f"nodes {low!r:.20} and {high!r:.20} do not meet in this round")
        values[(low, high), place] = _rate(rate)
    return values
