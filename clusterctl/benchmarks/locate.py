"""The argv of the program behind ``locate``, and the verdict that its rates lead to.

The program writes rates only. They are put through the same search here, so that a node cannot name another one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.foreign import NotUnderstood, json_value, lines
from clusterctl.workloads.locate import alone
from clusterctl.workloads.locate import intermittent as intermittent_of
from clusterctl.workloads.locate.alone import Alone
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.intermittent import Intermittent
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.verdict import LocateVerdict, Values
from clusterctl.workloads.records import MARK

SEED = 20260
"""A fixed seed: the same rates lead to the same rounds and verdict on every machine."""
_MOST = 1e18
_MOST_RECORDS = 100_000
_Sent = TypeVar("_Sent")
_Ended = TypeVar("_Ended")


@dataclass(frozen=True, slots=True)
class Located:
    """What one run of ``locate`` found; ``verdict`` is None if the run did not reach its end."""

    fleet: RankFleet
    verdict: LocateVerdict | None = None
    alone: tuple[Alone, ...] = ()
    windows: int = 0
    intermittent: tuple[Intermittent, ...] = ()
    repeated: int = 0
    """Rounds of ``--for``."""
    devices: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def words(
    program: Sequence[str],
    backend: str,
    fleet: Sequence[int],
    rails: Sequence[str],
    timeout_s: float,
    repeat_s: float = 0,
) -> tuple[str, ...]:
    """Return the command of every rank; ``fleet``: the index of the node of each rank."""
    chosen = (*program, "--backend", backend, "--nodes", ",".join(map(str, fleet)), "--seed", str(SEED))
    repeated = ("--seconds", f"{repeat_s:g}") if repeat_s else ()
    return (*chosen, *(("--rails", ",".join(rails)) if rails else ()), *repeated, "-T", f"{timeout_s:g}")


def parse(text: str, node_of_rank: Sequence[str]) -> Located:
    """Return the verdict for the records in rank 0's stdout; ``node_of_rank``: the names of the launch."""
    fleet = RankFleet.of(node_of_rank)
    try:
        return _replayed(_records(text), fleet, len(node_of_rank))
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
            record = json_value(rest)
            if isinstance(record, dict) and str(record.get("kind", "")).startswith("locate-"):
                found.append(record)
        if len(found) > _MOST_RECORDS:
            raise NotUnderstood(f"more than {_MOST_RECORDS} records")
    return found


def _replayed(records: Sequence[dict[str, Any]], fleet: RankFleet, ranks: int) -> Located:
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
    if verdict is None or slow is None or "locate-end" not in kinds:
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
    return Located(fleet, verdict, slow, len(windows), often, len(seen), tuple(devices))


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
