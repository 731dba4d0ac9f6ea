"""Judge what rows measured: rules with sources, the comparison with equal hardware, and texts that must be equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.acceptance import spread
from clusterctl.acceptance.limits import AcceptLimits, AppliedRule, FleetComparison
from clusterctl.acceptance.model import RowFingerprint, RowMeasurement, RowOutcome, RowStatus
from clusterctl.acceptance.spread import FleetMiddle

_BY_WEIGHT = (
    RowStatus.FAIL,
    RowStatus.NOT_RUN,
    RowStatus.WARN,
    RowStatus.MEASURED,
    RowStatus.OK,
    RowStatus.NOT_APPLICABLE,
)
ACCEPTED = (RowStatus.OK, RowStatus.MEASURED, RowStatus.WARN)
"""The worst statuses of rows with which a node is accepted: at least one row was measured."""


@dataclass(frozen=True, slots=True)
class JudgedValue:
    """One value, the threshold that decided about it, and the source of the threshold.

    ``limit`` reads ``>= 715``; it is empty for a value without a threshold. ``far`` tells that the verdict comes from
    the comparison with equal hardware, so that a second measurement may clear it.
    """

    measurement: RowMeasurement
    hardware: str
    status: RowStatus
    limit: str
    source: str
    middle: float | None = None
    compared: int = 0
    far: bool = False


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """The verdict about one row on one node in one repeat, with its reason and its values."""

    outcome: RowOutcome
    status: RowStatus
    reason: str
    values: tuple[JudgedValue, ...] = ()

    @property
    def is_far(self) -> bool:
        """Return whether only the comparison with other nodes speaks against the row."""
        return any(one.far for one in self.values) and not any(
            one.status in (RowStatus.WARN, RowStatus.FAIL) and not one.far for one in self.values
        )


def worst(statuses: Sequence[RowStatus]) -> RowStatus:
    """Return the status that decides, of rows or of values; ``not-applicable`` for none."""
    return min(statuses, key=_BY_WEIGHT.index, default=RowStatus.NOT_APPLICABLE)


_Key = tuple[str, str, str, int]


def judge(outcomes: Sequence[RowOutcome], limits: AcceptLimits) -> tuple[JudgedRow, ...]:
    """Return the verdict of every outcome, in their order; pure."""
    groups: dict[_Key, dict[str, list[float]]] = {}
    for one in outcomes:
        for found in one.parsed.measurements if one.votes is None else one.votes:
            groups.setdefault(_key(one, found), {}).setdefault(one.node, []).append(found.value)
    compared = sum(
        sum(map(len, nodes.values()))
        for (row, field, hardware, _), nodes in groups.items()
        if limits.comparison(row, field, hardware).compare
    )
    texts = _texts(outcomes)
    of_pairs = frozenset(one.row for one in outcomes if one.votes is not None)
    judging = _Judging(limits, groups, compared, of_pairs)
    return tuple(_row(one, judging, texts) for one in outcomes)


def _hardware(outcome: RowOutcome, found: RowMeasurement | RowFingerprint) -> str:
    return found.hardware or outcome.hardware


def _key(outcome: RowOutcome, found: RowMeasurement | RowFingerprint) -> _Key:
    return outcome.row, found.field, _hardware(outcome, found), outcome.repeat


@dataclass(frozen=True, slots=True)
class _Group:
    """What is equal for all values of a field on equal hardware in one repeat; computed once."""

    hardware: str
    rules: tuple[tuple[AppliedRule, float], ...]
    median: float | None
    count: int
    comparison: FleetComparison
    middle: FleetMiddle | None


class _Judging:
    """Judge values, each in the group of values to which it is compared."""

    def __init__(
        self,
        limits: AcceptLimits,
        groups: Mapping[_Key, Mapping[str, Sequence[float]]],
        compared: int,
        of_pairs: Collection[str],
    ) -> None:
        self._limits, self._values, self._compared, self._of_pairs = limits, groups, compared, of_pairs
        self._groups: dict[tuple[_Key, bool], _Group] = {}

    def value(self, outcome: RowOutcome, found: RowMeasurement) -> JudgedValue:
        """Return the verdict about one value: the worst of its thresholds, else the first one that it meets."""
        key = _key(outcome, found)
        group = self._groups.get((key, found.higher_is_better))
        if group is None:
            group = self._groups[key, found.higher_is_better] = self._group(key, up=found.higher_is_better)
        verdicts = [*_by_rules(group, found), *_by_fleet(group, outcome, found)]
        if not verdicts:
            return JudgedValue(found, group.hardware, RowStatus.MEASURED, "", "")
        status = worst([one.status for one in verdicts])
        return next(one for one in verdicts if one.status is status)

    def _group(self, key: _Key, *, up: bool) -> _Group:
        row, field, hardware, _ = key
        # None if a pair printed the field, and neither node for itself.
        values = self._values.get(key, {})
        count = sum(map(len, values.values()))
        middle = spread.fleet_median(values) if count > 1 else None
        bounds = ((one, one.rule.bound(middle)) for one in self._limits.rules(row, field, hardware))
        comparison = self._limits.comparison(row, field, hardware)
        of_fleet = None
        better_is_more = {
            node: [_more(value, up=up) for value in v] for node, v in values.items() if min(v) > 0
        }
        # A node that reports zero does not end the comparison of the others.
        if comparison.compare and 2 * len(better_is_more) > len(values):
            of_fleet = spread.middle_of(
                better_is_more, comparison.spread, self._compared, of_pairs=row in self._of_pairs
            )
        rules = tuple((one, bound) for one, bound in bounds if bound is not None)
        return _Group(hardware, rules, middle, count, comparison, of_fleet)


def _more(value: float, *, up: bool) -> float:
    """Return a positive value so that more is better."""
    return value if up else 1 / value


def _by_rules(group: _Group, found: RowMeasurement) -> Iterator[JudgedValue]:
    for applied, bound in group.rules:
        status = applied.status if applied.rule.meets(found.value, bound) else RowStatus.OK
        of = (group.median, group.count) if applied.rule.of_median else (None, 0)
        yield JudgedValue(found, group.hardware, status, applied.rule.wanted(bound), applied.source, *of)


def _by_fleet(group: _Group, outcome: RowOutcome, found: RowMeasurement) -> Iterator[JudgedValue]:
    middle, up = group.middle, found.higher_is_better
    if middle is None:
        return
    again = [one.value for one in outcome.again if (one.field, one.device) == (found.field, found.device)]
    # A rate of zero is the worst one; a latency or a share of zero is the best one.
    best = max(
        (_more(value, up=up) for value in (found.value, *again) if value > 0), default=0.0 if up else math.inf
    )
    far = middle.is_far(best, group.comparison.warn)
    status = RowStatus.OK
    if far:
        fails = middle.is_far(best, group.comparison.fail) and not middle.of_better
        status = RowStatus.FAIL if fails else RowStatus.WARN
    limit = _fleet_limit(middle, group.comparison.warn, up=up)
    source = _fleet_source(middle, group.comparison.source)
    yield JudgedValue(
        found, group.hardware, status, limit, source, _more(middle.middle, up=up), middle.count, far
    )


def _fleet_limit(middle: FleetMiddle, warn: float, *, up: bool) -> str:
    least = middle.middle * (1 - max(warn, middle.noise))
    if least <= 0:
        return "any: the values of the fleet differ too much to compare them"
    return f">= {least:.4g}" if up else f"<= {1 / least:.4g}"


def _fleet_source(middle: FleetMiddle, source: str) -> str:
    best = "the best one of three" if middle.nodes == 3 else "the better one of two"
    what = best if middle.of_better else f"the median of {_voices(middle)}"
    return f"{what} of equal hardware in this run; {source}"


def _voices(middle: FleetMiddle) -> str:
    return f"{middle.count} values" if middle.nodes < 2 else f"{middle.nodes} nodes"


class _Texts:
    """The texts of a field on equal hardware in one repeat, by node."""

    def __init__(self) -> None:
        self.by_node: dict[str, Counter[str]] = {}

    @property
    def devices(self) -> int:
        """Return the number of devices."""
        return sum(counted.total() for counted in self.by_node.values())

    def of(self, text: str) -> int:
        """Return the number of devices with this text."""
        return sum(counted[text] for counted in self.by_node.values())

    def votes(self) -> tuple[Counter[str], int]:
        """Return the votes and their number: one per node, or one per device of a single node.

        A node votes for the text of most of its devices, and has no vote if they differ too much.
        """
        if len(self.by_node) == 1:
            (counted,) = self.by_node.values()
            return counted, counted.total()
        found: Counter[str] = Counter()
        for counted in self.by_node.values():
            (most, times), *_ = counted.most_common()
            if 2 * times > counted.total():
                found[most] += 1
        return found, found.total()


def _texts(outcomes: Sequence[RowOutcome]) -> dict[_Key, _Texts]:
    found: dict[_Key, _Texts] = {}
    for one in outcomes:
        for text in one.parsed.fingerprints:
            of_key = found.setdefault(_key(one, text), _Texts())
            of_key.by_node.setdefault(one.node, Counter())[text.text] += 1
    return found


def _row(outcome: RowOutcome, judging: _Judging, texts: Mapping[_Key, _Texts]) -> JudgedRow:
    if outcome.not_applicable:
        return JudgedRow(outcome, RowStatus.NOT_APPLICABLE, outcome.not_applicable)
    reasons: list[tuple[RowStatus, str]] = []
    if outcome.failed:
        reasons.append((RowStatus.FAIL, outcome.failed))
    if outcome.not_run:
        reasons.append((RowStatus.NOT_RUN, outcome.not_run))
    values = tuple(judging.value(outcome, found) for found in outcome.parsed.measurements)
    reasons += [(one.status, value_text(one)) for one in values if one.status is not RowStatus.MEASURED]
    reasons += [
        (one.status, f"{one.device}: {one.text}" if one.device else one.text)
        for one in outcome.parsed.findings
    ]
    counts = [(one, texts[_key(outcome, one)]) for one in outcome.parsed.fingerprints]
    # A device without an equal one proves nothing.
    reasons += [_equal(one, found) for one, found in counts if found.devices > 1]
    if not reasons:
        status = RowStatus.MEASURED if values else RowStatus.OK
        return JudgedRow(
            outcome, status, "no threshold applies, and nothing to compare with" if values else "", values
        )
    status = worst([one for one, _ in reasons])
    said = [text for one, text in reasons if one is status] if status is not RowStatus.OK else []
    more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
    return JudgedRow(outcome, status, said[0] + more if said else "", values)


def value_text(one: JudgedValue) -> str:
    """Return a value with its device and its threshold: ``GPU 3: bf16_tflops 512 TFLOP/s, not >= 715``."""
    found = one.measurement
    where = f"{found.device}: " if found.device else ""
    off = "" if one.status is RowStatus.OK else f", not {one.limit}"
    share = ""
    if one.far and one.middle:
        share = (
            f", {abs(found.value / one.middle - 1):.0%} {'below' if found.value < one.middle else 'above'}"
        )
        share += f" {one.middle:.4g}"
    return f"{where}{found.field} {found.value:.4g} {found.unit}{off}{share}"


def _equal(found: RowFingerprint, texts: _Texts) -> tuple[RowStatus, str]:
    where = f"{found.device}: " if found.device else ""
    equal = texts.of(found.text)
    if equal == texts.devices:
        return RowStatus.OK, f"{where}{found.field} equal on {equal} devices"
    votes, most_votes = texts.votes()
    (most, times) = votes.most_common(1)[0] if votes else ("", 0)
    if 2 * times <= most_votes:
        return RowStatus.WARN, (
            f"{where}{found.field} differs between equal devices, and no result has a majority"
        )
    if found.text == most:
        return RowStatus.OK, f"{where}{found.field} equal on {equal} of {texts.devices} devices"
    who = f"{times} equal devices" if len(texts.by_node) == 1 else f"{times} of {most_votes} equal nodes"
    return RowStatus.FAIL, f"{where}{found.field} differs from that of {who}"
