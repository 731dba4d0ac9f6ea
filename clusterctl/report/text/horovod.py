"""A training's result in the format of Horovod's synthetic benchmark, which many scripts parse.

The lines, their order and their digits match examples/pytorch/pytorch_synthetic_benchmark.py in Horovod 0.28:
the spread is 1.96 sigma, and the total is the mean per device times their number.
"""

from __future__ import annotations

from clusterctl.documents.bench import BenchResult


def render(result: BenchResult) -> str:
    """Return the lines of every point of the curve, the largest last, because scripts read the last match."""
    batch_size = (result.proof.settings or {}).get("batch_size", "-")
    on_cpu = all(rank.device.startswith("cpu") for rank in result.proof.ranks or ())
    kind = "CPU" if on_cpu else "GPU"
    lines = []
    for point in result.points:
        mean = point.samples_per_s_per_rank
        spread = (result.proof.spread or {}).get(str(point.np), 0.0)
        lines += [
            f"Model: {result.benchmark}",
            f"Batch size: {batch_size}",
            f"Number of {kind}s: {point.np}",
            f"Img/sec per {kind}: {mean:.1f} +-{spread:.1f}",
            f"Total img/sec on {point.np} {kind}(s): {point.np * mean:.1f} +-{point.np * spread:.1f}",
        ]
    return "\n".join(lines)
