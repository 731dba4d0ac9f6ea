"""Examine what was named: is it slow when it sends, when it receives, and is one rail slow while the others pause?

Pure, like the search. Each test measures the named unit or link beside control pairs of healthy nodes, the tests
interleaved. They name nothing new: a test that stays undecided says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from clusterctl.workloads.locate import rank_sum, rounds
from clusterctl.workloads.locate.controls import MOST_CONTROLS, MeasuredBeside, beside
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.trial import Trial
from clusterctl.workloads.locate.verdict import Finding, SuspectState, Values

LEVEL = 0.01
"""The chance with which one test calls something slow that is not."""
_LEAST_ROUNDS = 3


class CauseTest(str, Enum):
    """``sends``, ``receives``: only the named node (of a link: its first node) sends or receives. ``alone``: both
    directions at once, and only one rail of the node is in use.
    """

    SENDS = "sends"
    RECEIVES = "receives"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Probe:
    """One round: pairs whose first node sends or receives, and the only place that is measured (None: all)."""

    test: CauseTest
    pairs: tuple[Pair, ...]
    place: int | None = None

    @property
    def planned(self) -> list[Pair]:
        """Return the pairs as the search would: the lower index first."""
        return [rounds.pair(*one) for one in self.pairs]


@dataclass(frozen=True, slots=True)
class Examined:
    """One test of one finding; ``ratio``: the median of its rate over that of its controls."""

    finding: Finding
    test: CauseTest
    status: SuspectState
    ratio: float
    chance: float
    rounds: int


Examination = Generator[Probe, Values, tuple[Examined, ...]]
_Key = tuple[Finding, CauseTest]


def examine(named: Sequence[Finding], nodes: int, seed: int = 0) -> Examination:
    """Yield each round, take its rates, and return the outcome of every test of every finding."""
    chance = random.Random(f"cause-{seed}")
    bad = {one.nodes[0] for one in named if not one.is_link}
    good = sorted(set(range(nodes)) - bad)
    if not named or len(good) < 2:
        return ()
    trials: dict[_Key, Trial] = {}
    tests = list(_tests(named))
    needed = max(_LEAST_ROUNDS, rank_sum.least_rounds(_fewest_controls(named, good), LEVEL))
    for _ in range(needed):
        for test, place, findings in tests:
            for turn in _turns(findings, good, chance):
                measured = yield from _probe(test, place, list(turn), good, named, chance)
                for pair, own in turn.items():
                    for one in own:
                        trial = trials.setdefault((one, test), Trial())
                        trial.record(measured.values.get((rounds.pair(*pair), one.place)),
                                     measured.controls(one.place))  # fmt: skip
    return tuple(
        Examined(one, test, trial.status(LEVEL), trial.ratio, trial.chance, len(trial.ranks))
        for (one, test), trial in trials.items()
    )


def _tests(named: Sequence[Finding]) -> Iterator[tuple[CauseTest, int | None, list[Finding]]]:
    """Yield each test with the place that it is limited to, and the findings that it examines."""
    yield CauseTest.SENDS, None, list(named)
    yield CauseTest.RECEIVES, None, list(named)
    # Several slow rails of one node may share what is slow: then one of them is well while the others pause.
    places: dict[int, list[Finding]] = {}
    for one in named:
        if not one.is_link:
            places.setdefault(one.nodes[0], []).append(one)
    shared = [min(own, key=lambda one: one.place) for own in places.values() if len(own) > 1]
    for place in sorted({one.place for one in shared}):
        yield CauseTest.ALONE, place, [one for one in shared if one.place == place]


def _turns(
    findings: Sequence[Finding], good: Sequence[int], chance: random.Random
) -> Iterator[dict[Pair, list[Finding]]]:
    """Yield the findings by the pair that measures them, as many at once as leave healthy nodes for a control pair."""
    waiting = list(dict.fromkeys(one.nodes for one in findings))
    while waiting:
        turn: dict[Pair, list[Finding]] = {}
        busy: set[int] = set()
        for nodes in list(waiting):
            free = [node for node in good if node not in busy]
            if busy & set(nodes) or (turn and len(free) < 2 + len(nodes)):
                continue
            pair = (nodes[0], nodes[1]) if len(nodes) == 2 else (nodes[0], chance.choice(free))
            turn[pair] = [one for one in findings if one.nodes == nodes]
            busy |= {*pair}
            waiting.remove(nodes)
        yield turn


def _fewest_controls(named: Sequence[Finding], good: Sequence[int]) -> int:
    """Return the number of control pairs of a turn that is as full as it can be."""
    fullest = max(1, min(len({one.nodes for one in named}), len(good) - 2))
    return min(MOST_CONTROLS, max(1, (len(good) - fullest) // 2))


def _probe(
    test: CauseTest,
    place: int | None,
    pairs: list[Pair],
    good: Sequence[int],
    named: Sequence[Finding],
    chance: random.Random,
) -> Generator[Probe, Values, MeasuredBeside]:
    """Measure ordered pairs beside control pairs, as one or two rounds of this test."""
    links = frozenset(rounds.pair(one.nodes[0], one.nodes[1]) for one in named if one.is_link)
    order = {rounds.pair(*one): one for one in pairs}
    steps = beside(list(order), good, links, chance)
    try:
        planned = next(steps)
        while True:
            ordered = tuple(order.get(one, one) for one in planned)
            planned = steps.send((yield Probe(test, ordered, place)))
    except StopIteration as ended:
        measured: MeasuredBeside = ended.value
        return measured
