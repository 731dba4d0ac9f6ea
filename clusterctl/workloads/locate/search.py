"""The search: rounds of pairs, suspects, their confirmation. Pure: it asks for rounds, and gets their rates.

Node and controller run the same generator with the same seed: the node to know which round is next, the controller
to reach the verdict itself, from the printed rates.

The false-alarm bound: a suspect is named only if its ranks among controls of the same rounds are as low as a healthy
unit's are with a chance of ALPHA / (suspects x looks), so all of them together in one of 1000 runs. The test needs no
model of the noise, but assumes that a healthy unit is exchangeable with its controls; a loss of 10 % at least is
required too, because healthy hardware differs by a few percent.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from clusterctl.workloads.locate import rank_sum, rounds
from clusterctl.workloads.locate.controls import MOST_CONTROLS, beside
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.trial import LOOKS, Trial
from clusterctl.workloads.locate.verdict import (
    Boundary,
    Finding,
    Groups,
    LocateVerdict,
    SlowPlace,
    SuspectState,
    Values,
)

ALPHA = 0.001
LOOSE_CUT = 0.08
"""A unit that is this much below the median is a suspect: a loose cut, because a suspect costs seconds."""
_SCALE = 1.4826
_DEVIATIONS = 3
_GROUP_SHARE = 0.45
_MIXED_FROM, _MIXED_DEVIATION = 16, 0.05
_OWN_MEDIAN_FROM = 16
"""So many pairs of a round have a median of their own; drift that all of them share is then removed."""
_SCREENS = 2
_MOST_LINKS = 16

Search = Generator[list[Pair], Values, LocateVerdict]
_Unit = tuple[int, int]
"""Node and place."""
_Link = tuple[Pair, int]
"""Two nodes and the place."""


@dataclass
class _Survey:
    """All rates of the first rounds, each over the median of its round or of its place."""

    rates: list[Values] = field(default_factory=list)
    ratios: dict[tuple[Pair, int], list[float]] = field(default_factory=dict)

    def finish(self) -> None:
        medians = self.medians()
        for values in self.rates:
            own = {
                place: statistics.median(rates) if len(rates) >= _OWN_MEDIAN_FROM else medians[place]
                for place, rates in _rates_by_place([values]).items()
            }
            for (pair, place), rate in values.items():
                self.ratios.setdefault((pair, place), []).append(rate / own[place])

    def medians(self) -> dict[int, float]:
        """Return the median rate of each place over all rounds."""
        return {
            place: statistics.median(rates) or 1.0 for place, rates in _rates_by_place(self.rates).items()
        }

    def of_units(self) -> dict[_Unit, list[float]]:
        """Return the ratios of each unit with its partners."""
        found: dict[_Unit, list[float]] = {}
        for (pair, place), ratios in self.ratios.items():
            for node in pair:
                found.setdefault((node, place), []).extend(ratios)
        return found

    def pairs(self) -> dict[tuple[Pair, int], float]:
        """Return the best rate of each pair in GB/s."""
        found: dict[tuple[Pair, int], float] = {}
        for values in self.rates:
            for key, rate in values.items():
                found[key] = max(rate, found.get(key, 0.0))
        return found

    def best(self) -> dict[_Unit, float]:
        """Return the best rate of each unit in GB/s: noise only makes a pair slower, and so does a slow partner."""
        found: dict[_Unit, float] = {}
        for (pair, place), rate in self.pairs().items():
            for node in pair:
                found[node, place] = max(rate, found.get((node, place), 0.0))
        return found


def _rates_by_place(rounds_: Iterable[Values]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for values in rounds_:
        for (_, place), rate in values.items():
            found.setdefault(place, []).append(rate)
    return found


def search(nodes: int, seed: int = 0, alpha: float = ALPHA) -> Search:
    """Yield the pairs of each round, take their rates, and return the verdict.

    The nodes are sorted by their place in the network. A round whose rates do not arrive (an empty mapping) counts as
    one without evidence.
    """
    chance = random.Random(seed)
    survey, used = _Survey(), 0
    for planned in rounds.rounds(nodes):
        survey.rates.append((yield planned))
        used += 1
    survey.finish()
    if nodes < 3:
        return LocateVerdict(rounds=used, best=survey.best(), pairs=survey.pairs())
    scores = {unit: max(ratios) for unit, ratios in survey.of_units().items()}
    groups = tuple(_groups(scores))
    if groups:
        return LocateVerdict(
            groups=groups,
            rounds=used,
            best=survey.best(),
            pairs=survey.pairs(),
            slow_places=_slow_places(survey),
        )
    suspects = _suspects(scores)
    links, screens = yield from _slow_links(survey, suspects, nodes, chance)
    used += screens
    level = alpha / (max(1, len(suspects) + len(links)) * len(LOOKS))
    findings: list[Finding] = []
    for confirming in (_confirm_units(suspects, survey, nodes, level, chance),
                       _confirm_links(links, suspects, survey, nodes, level, chance)):  # fmt: skip
        found, more = yield from confirming
        findings += found
        used += more
    return LocateVerdict(
        tuple(sorted(findings, key=lambda one: (one.status is not SuspectState.NAMED, one.ratio))),
        boundary=_boundary(survey, nodes),
        slow_places=_slow_places(survey),
        rounds=used,
        best=survey.best(),
        pairs=survey.pairs(),
    )


def suspects_of(scores: Mapping[int, float]) -> list[int]:
    """Return those whose score is low: below the median by 8 %, and by three scaled deviations (MAD)."""
    if len(scores) < 3:
        return []
    median = statistics.median(scores.values())
    deviation = _SCALE * statistics.median(abs(score - median) for score in scores.values())
    cut = max(_DEVIATIONS * deviation, LOOSE_CUT * median)
    return [one for one, score in scores.items() if median - score > cut]


def _by_place(scores: Mapping[_Unit, float]) -> dict[int, dict[int, float]]:
    found: dict[int, dict[int, float]] = {}
    for (node, place), score in scores.items():
        found.setdefault(place, {})[node] = score
    return found


def _suspects(scores: Mapping[_Unit, float]) -> list[_Unit]:
    return [(node, place) for place, own in sorted(_by_place(scores).items()) for node in suspects_of(own)]


def _groups(scores: Mapping[_Unit, float]) -> Iterable[Groups]:
    """Yield the places whose units form two groups, or spread so widely that the median means nothing."""
    for place, own in sorted(_by_place(scores).items()):
        if len(own) < 3:
            continue
        ordered = sorted(own, key=lambda node: own[node])
        gaps = [own[high] - own[low] for low, high in pairwise(ordered)]
        at = max(range(len(gaps)), key=gaps.__getitem__)
        median = statistics.median(own.values())
        deviation = _SCALE * statistics.median(abs(score - median) for score in own.values())
        two = gaps[at] > LOOSE_CUT * median and (at + 1) > _GROUP_SHARE * len(own)
        if two or (len(own) > _MIXED_FROM and deviation > _MIXED_DEVIATION * median):
            slow, fast = tuple(sorted(ordered[: at + 1])), tuple(sorted(ordered[at + 1 :]))
            ratio = statistics.median(own[node] for node in slow) / statistics.median(own[n] for n in fast)
            yield Groups(place, slow, fast, ratio)


def _slow_places(survey: _Survey) -> tuple[SlowPlace, ...]:
    medians = survey.medians()
    return tuple(
        SlowPlace(place, medians[place] / statistics.median(medians.values()))
        for place in suspects_of(medians)
    )


def _boundary(survey: _Survey, nodes: int) -> Boundary | None:
    """Return the lowest distance from which on every round is slow, if those below it are not."""
    bits = rounds.distance_bits(nodes)
    own = [statistics.median(values.values()) for values in survey.rates[:bits] if values]
    if len(own) < bits:
        return None
    for bit in range(1, bits):
        near, far = own[:bit], own[bit:]
        if max(far) < (1 - LOOSE_CUT) * min(near):
            return Boundary(1 << bit, statistics.median(far) / statistics.median(near))
    return None


def _slow_links(
    survey: _Survey, suspects: Sequence[_Unit], nodes: int, chance: random.Random
) -> Generator[list[Pair], Values, tuple[list[_Link], int]]:
    """Measure the low pairs of healthy units again, and return those that stay low, the slowest first."""
    bad = set(suspects)
    low = {
        key: min(ratios)
        for key, ratios in survey.ratios.items()
        if max(ratios) < 1 - LOOSE_CUT and not bad & {(node, key[1]) for node in key[0]}
    }
    well = sorted(set(range(nodes)) - {node for node, _ in bad})
    medians, used = survey.medians(), 0
    for _ in range(_SCREENS):
        for planned in rounds.matchings(sorted({pair for pair, _ in low})):
            measured = yield from beside(planned, well, frozenset(planned), chance)
            used += measured.rounds
            for key in [key for key in low if key[0] in planned]:
                controls = measured.controls(key[1])
                median = statistics.median(controls) if len(controls) >= _OWN_MEDIAN_FROM else medians[key[1]]
                if measured.values.get(key, 0.0) >= (1 - LOOSE_CUT) * median:
                    del low[key]
    return sorted(low, key=lambda key: low[key])[:_MOST_LINKS], used


_Confirmed = Generator[list[Pair], Values, tuple[list[Finding], int]]


def _confirm_units(
    suspects: Sequence[_Unit], survey: _Survey, nodes: int, level: float, chance: random.Random
) -> _Confirmed:
    """Pair the node of each suspect with a random good node in each round, beside control pairs of good nodes."""
    bad = {node for node, _ in suspects}
    good = sorted(set(range(nodes)) - bad)
    trials, used = {unit: Trial() for unit in suspects}, 0
    at_once = max(1, len(good) - 2)
    undecided = list(suspects)
    for look in LOOKS if len(good) >= 2 else ():
        slow = sorted({node for node, _ in undecided})
        controls = (len(good) - min(len(slow), at_once)) // 2 or len(good) // 2
        for _ in range(look * rank_sum.least_rounds(min(controls, MOST_CONTROLS), level)):
            for start in range(0, len(slow), at_once):
                turn = slow[start : start + at_once]
                partners = dict(zip(turn, chance.sample(good, len(turn)), strict=True))
                planned = [rounds.pair(node, partner) for node, partner in partners.items()]
                measured = yield from beside(planned, good, frozenset(), chance)
                used += measured.rounds
                for node, place in undecided:
                    if node in partners:
                        key = rounds.pair(node, partners[node]), place
                        trials[node, place].record(measured.values.get(key), measured.controls(place))
        undecided = [unit for unit in undecided if trials[unit].status(level) is SuspectState.OPEN]
        if not undecided:
            break
    ratios = survey.of_units()
    return [_finding((node,), place, trials[node, place], level, ratios[node, place])
            for node, place in suspects], used  # fmt: skip


def _confirm_links(
    links: Sequence[_Link],
    suspects: Sequence[_Unit],
    survey: _Survey,
    nodes: int,
    level: float,
    chance: random.Random,
) -> _Confirmed:
    """Measure each link again and again, beside control pairs of other nodes."""
    well = sorted(set(range(nodes)) - {node for node, _ in suspects})
    trials, used = {link: Trial() for link in links}, 0
    pairs = frozenset(pair for pair, _ in links)
    undecided = list(links)
    for look in LOOKS:
        for planned in rounds.matchings(sorted({pair for pair, _ in undecided})):
            controls = (len(well) - 2 * len(planned)) // 2 if len(well) >= 2 * len(planned) + 2 else 1
            needed = look * rank_sum.least_rounds(min(controls, MOST_CONTROLS), level)
            for _ in range(needed):
                measured = yield from beside(planned, well, pairs, chance)
                used += measured.rounds
                if not measured.control_pairs:
                    break
                for pair, place in undecided:
                    if pair in planned:
                        trials[pair, place].record(
                            measured.values.get((pair, place)), measured.controls(place)
                        )
        undecided = [link for link in undecided if trials[link].status(level) is SuspectState.OPEN]
        if not undecided:
            break
    return [_finding(pair, place, trials[pair, place], level, survey.ratios[pair, place])
            for pair, place in links], used  # fmt: skip


def _finding(
    nodes: tuple[int, ...], place: int, trial: Trial, level: float, ratios: Sequence[float]
) -> Finding:
    low = sum(ratio < 1 - LOOSE_CUT for ratio in ratios)
    status = trial.status(level)
    return Finding(nodes, place, status, trial.ratio, trial.chance, len(trial.ranks), low, len(ratios))
