"""Judge what every rank measured alone, at the same time as all others: its GPU or CPU, its memory, its host link.

Pure, like the search of pairs: it takes windows of rates, asks for more, and returns who is slow. The ranks with the
same device are each other's controls.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from clusterctl.workloads.locate import rank_sum
from clusterctl.workloads.locate.search import ALPHA, suspects_of
from clusterctl.workloads.locate.trial import LOOKS, Trial
from clusterctl.workloads.locate.verdict import SuspectState

WINDOWS = 3
"""Windows before a rank is suspected; its best one counts."""
LEAST_PEERS = 3
"""Ranks with a device that fewer ranks have are not judged."""

Window = dict[tuple[str, int], float]
"""Rates of one window, by measure and rank; higher is better."""
Windows = Generator[None, Window, "tuple[Alone, ...]"]


@dataclass(frozen=True, slots=True)
class Alone:
    """One suspect: its rank, what is slow, its rate over its peers' median, and how likely that is by chance."""

    rank: int
    measure: str
    status: SuspectState
    ratio: float
    chance: float
    windows: int


def judge(devices: Sequence[str], alpha: float = ALPHA) -> Windows:
    """Yield for each window, take its rates, and return the suspects; ``devices``: the device's name of each rank."""
    first: list[Window] = []
    for _ in range(WINDOWS):
        first.append((yield))
    peers: dict[str, list[int]] = {}
    for rank, device in enumerate(devices):
        peers.setdefault(device, []).append(rank)
    suspects = [
        (measure, rank)
        for own in peers.values() if len(own) >= LEAST_PEERS
        for measure in sorted({measure for window in first for measure, _ in window})
        for rank in suspects_of(_best(first, measure, own))
    ]  # fmt: skip
    level = alpha / (max(1, len(suspects)) * len(LOOKS))
    trials = {suspect: Trial() for suspect in suspects}
    undecided, done = list(suspects), 0
    for look in LOOKS if suspects else ():
        fewest = min(len(peers[devices[rank]]) for _, rank in undecided) - len(
            {rank for _, rank in undecided}
        )
        for _ in range(look * rank_sum.least_rounds(max(1, fewest), level) - done):
            window = yield
            done += 1
            for measure, rank in undecided:
                bad = {one for other, one in suspects if other == measure}
                others = [window[measure, one] for one in peers[devices[rank]]
                          if one not in bad and (measure, one) in window]  # fmt: skip
                trials[measure, rank].record(window.get((measure, rank)), others)
        undecided = [
            s for s in undecided if trials[s].ratios and trials[s].status(level) is SuspectState.OPEN
        ]
        if not undecided:
            break
    return tuple(
        Alone(rank, measure, trial.status(level), trial.ratio, trial.chance, len(trial.ratios))
        for (measure, rank), trial in trials.items() if trial.ratios
    )  # fmt: skip


def _best(
    windows: Sequence[Mapping[tuple[str, int], float]], measure: str, ranks: Sequence[int]
) -> dict[int, float]:
    """Return the best rate of each rank: other load only makes a window slower."""
    found = {
        rank: [window[measure, rank] for window in windows if (measure, rank) in window] for rank in ranks
    }
    return {rank: max(rates) for rank, rates in found.items() if rates}
