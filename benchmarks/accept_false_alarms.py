"""How often `accept` names a node of a healthy fleet by comparison, and how often it names a slow one: simulated.

    python benchmarks/accept_false_alarms.py [RUNS]

Every field has normal noise of its recorded spread (thresholds/fleet.yaml), once as it is, once four times as large.
The code of `accept` judges the rows; what is far is drawn a second time, as `accept` measures it again. The rows are
those of nodes with 8 GPUs, 4 RDMA ports and local disks. Prints the share of runs with a false alarm, the worst
row, and the share of runs in which one GPU that lost 15 % is named.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace

from clusterctl.acceptance.judge import judge
from clusterctl.acceptance.limits import AcceptLimits, limits
from clusterctl.acceptance.model import Parsed, RowMeasurement, RowOutcome, RowStatus

FIELDS = {
    "gpu-gemm": (("fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops", "fp8_tflops"), 8),
    "gpu-memory": (("copy_gb_per_s",), 8),
    "gpu-host-link": (("h2d_gb_per_s", "d2h_gb_per_s"), 8),
    "gpu-load": (("sustained_tflops",), 8),
    "rdma-bandwidth": (("write_gbit_per_s",), 4),
    "rdma-latency": (("latency_us",), 4),
    "cpu-memory": (("read_mb_per_s", "write_mb_per_s"), 1),
    "disk": (("read_mb_per_s", "write_mb_per_s", "randread_iops"), 1),
}
BAD = (RowStatus.WARN, RowStatus.FAIL)
SLOW = ("n0", "gpu-gemm", "bf16_tflops", "GPU 0")


def drawn(rng: random.Random, known: AcceptLimits, node: str, row: str, factor: float, loss: float) -> Parsed:
    """Return what a row measures on a node of 100 in every unit, with noise."""
    names, devices = FIELDS[row]
    found = []
    for name in names:
        spread = factor * known.comparison(row, name, "").spread
        for device in range(devices):
            at = f"GPU {device}"
            slow = 1 - loss if (node, row, name, at) == SLOW else 1.0
            value = 100 * slow * max(0.01, 1 + spread * rng.gauss(0, 1))
            found.append(RowMeasurement(name, value, "units", not name.endswith("_us"), at))
    return Parsed(tuple(found))


def named(
    rng: random.Random, known: AcceptLimits, nodes: int, factor: float, loss: float
) -> list[tuple[str, str]]:
    """Return the nodes and rows that one run names."""
    outcomes = [
        RowOutcome(f"n{i}", row, parsed=drawn(rng, known, f"n{i}", row, factor, loss))
        for i in range(nodes)
        for row in FIELDS
    ]
    for index, one in enumerate(judge(outcomes, known)):
        if one.is_far:
            again = drawn(rng, known, one.outcome.node, one.outcome.row, factor, loss)
            outcomes[index] = replace(one.outcome, again=again.measurements)
    return [(one.outcome.node, one.outcome.row) for one in judge(outcomes, known) if one.status in BAD]


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    known = AcceptLimits(limits().shipped)
    print("nodes  noise  runs  false alarm  worst row              a GPU at -15 % named")
    for nodes in (3, 8, 32, 128):
        for factor in (1.0, 4.0):
            rng = random.Random(nodes * 10 + int(factor))
            count = max(50, min(runs, runs * 8 // nodes))
            false: Counter[str] = Counter()
            wrong = right = 0
            for _ in range(count):
                rows = named(rng, known, nodes, factor, 0.0)
                wrong += bool(rows)
                false.update({row for _, row in rows})
            slow_runs = count // 5
            for _ in range(slow_runs):
                right += SLOW[:2] in named(rng, known, nodes, factor, 0.15)
            worst = ", ".join(f"{row} {times / count:.2%}" for row, times in false.most_common(1)) or "-"
            print(
                f"{nodes:5}  x{factor:g}     {count:4}  {wrong / count:11.2%}  {worst:22} {right / slow_runs:.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
