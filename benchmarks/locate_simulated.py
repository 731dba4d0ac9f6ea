"""How often ``locate`` names the slow node, and how often a wrong one, on simulated fleets.

The model is that of tests/support/simulated_pairs.py. Beside it, the rule that many tools use: a node is slow if both
of two neighbours in a ring are slower than the median by 10 % and 3.5 scaled deviations.

    python benchmarks/locate_simulated.py [--runs 1000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT)]

from simulated_pairs import SimulatedFleet  # noqa: E402

LOSS = 0.15
# Nodes, bad nodes, noise, disturbed pairs, a slow cable, and the share of the runs that this row gets.
ROWS = [
    (3, 0, 0.05, True, False, 1.0), (4, 0, 0.05, True, False, 1.0), (8, 0, 0.05, True, False, 1.0),
    (16, 0, 0.05, True, False, 1.0), (64, 0, 0.05, True, False, 1.0), (256, 0, 0.05, True, False, 0.1),
    (1024, 0, 0.05, True, False, 0.01),
    (3, 1, 0.05, True, False, 1.0), (4, 1, 0.05, True, False, 1.0), (8, 1, 0.05, True, False, 1.0),
    (16, 1, 0.05, True, False, 1.0), (64, 6, 0.01, False, False, 0.2), (64, 26, 0.05, True, False, 0.05),
    (256, 25, 0.01, False, False, 0.05), (1024, 102, 0.05, True, False, 0.005),
    (6, 0, 0.05, True, True, 1.0), (64, 0, 0.05, True, True, 0.5), (64, 32, 0.05, True, False, 0.1),
]  # fmt: skip


def ring_names(fleet: SimulatedFleet) -> set[int]:
    """Return the nodes that the rule of two neighbours names."""
    nodes = fleet.nodes
    even = [(node, node + 1) for node in range(0, nodes - 1, 2)]
    odd = [tuple(sorted((node, (node + 1) % nodes))) for node in range(1, nodes, 2)]
    best = dict.fromkeys(range(nodes), 0.0)
    for planned in (even, odd):
        for (pair, _), rate in fleet.answer(planned).items():  # type: ignore[arg-type]
            for node in pair:
                best[node] = max(best[node], rate)
    median = statistics.median(best.values())
    deviation = 1.4826 * statistics.median(abs(rate - median) for rate in best.values())
    return {node for node, rate in best.items() if median - rate > max(3.5 * deviation, 0.1 * median)}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print(f"loss {LOSS:.0%}; recall and runs with a wrong name; two neighbours | locate; rounds mean (max)")
    for nodes, bad, noise, bursts, cable, share in ROWS:
        began, count = time.perf_counter(), max(2, int(runs * share))
        found, ring, wrong, ring_wrong, inconclusive, links, rounds = 0, 0, 0, 0, 0, 0, []
        for seed in range(count):
            slow = set(random.Random(seed).sample(range(nodes), bad))
            cables = {(0, nodes // 2): 0.3} if cable else {}

            def fleet(seed: int = seed, slow: set[int] = slow, cables: dict[tuple[int, int], float] = cables,
                      row: tuple[int, float, bool] = (nodes, noise, bursts)) -> SimulatedFleet:  # fmt: skip
                return SimulatedFleet(
                    row[0], seed, {(n, 0): LOSS for n in slow}, cables, noise=row[1], bursts=row[2]
                )

            verdict, blamed = fleet().locate(), ring_names(fleet())
            named = {one.nodes[0] for one in verdict.named if not one.is_link}
            links += sum(one.is_link for one in verdict.named)
            found, wrong = found + len(named & slow), wrong + bool(named - slow)
            ring, ring_wrong = ring + len(blamed & slow), ring_wrong + bool(blamed - slow)
            inconclusive += verdict.is_inconclusive
            rounds.append(verdict.rounds)
        kind = f"{', a slow cable' if cable else '':15}, {'bursts' if bursts else 'clean':6}"
        what = f"{nodes:5} nodes, {bad:3} bad{kind}"
        recall = f"{ring / (count * bad):.3f} | {found / (count * bad):.3f}" if bad else "    - | -    "
        extra = f"  inconclusive {inconclusive}" * bool(inconclusive) + f"  links {links}" * bool(links)
        took_ms = (time.perf_counter() - began) / count * 1e3
        print(
            f"{what}  recall {recall}  wrong {ring_wrong / count:6.1%} | {wrong}/{count}  rounds "
            f"{statistics.mean(rounds):.1f} ({max(rounds)}){extra}  {took_ms:.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
