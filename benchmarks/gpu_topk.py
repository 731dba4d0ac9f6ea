"""Top-k selection on the GPU against torch: 25 and 100 million fp32 elements, ratios 0.001 and 0.01.

Plain selection against torch.topk(sorted=False) of magnitudes that are ready, and error feedback (acc = gradient +
residual, selection, the next residual) against the same in torch calls. Both sides are measured in turn on one GPU, by
CUDA events; medians. Each selection is compared with torch's. Goals: >= 7 and 11 times less time than torch (25 and 100
million), with error feedback >= 5 and 5.8 times.

    python benchmarks/gpu_topk.py [--repeats 25]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from collective_core.topk import Method
from collective_core.torch.cuda_topk import CudaTopk, payload_bytes, unpacked

# The device waits this long before each measurement, so that its time does not include that of the host's calls.
_AHEAD_CYCLES = 400_000
_WARM_UP = 5
_RATIOS = (0.001, 0.01)
_GOALS = {25_000_000: (7.0, 5.0), 100_000_000: (11.0, 5.8)}
_GOALS_US = {
    (25_000_000, 0.001): (75, 130),
    (25_000_000, 0.01): (82, 150),
    (100_000_000, 0.001): (145, 375),
    (100_000_000, 0.01): (175, 450),
}


def in_turn(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median microseconds of each way, which are run in turn."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + _WARM_UP):
        for name, way in ways.items():
            begin: Any = torch.cuda.Event(enable_timing=True)
            end: Any = torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(_AHEAD_CYCLES)
            begin.record()
            way()
            end.record()
            torch.cuda.synchronize()
            if repeat >= _WARM_UP:
                times[name].append(1e3 * begin.elapsed_time(end))
    return {name: statistics.median(kept) for name, kept in times.items()}


def as_graph(way: Callable[[], object]) -> Callable[[], object]:
    """Return the replay of a captured graph of it."""
    way()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        way()
    return graph.replay


def same_set(payload: torch.Tensor, kept: int, acc: torch.Tensor) -> bool:
    """Tell whether a payload holds magnitudes as large as those that torch selects."""
    _, indices, values = unpacked(payload, kept)
    wanted = acc.abs().topk(kept, sorted=False)[0]
    own = acc[indices.long()]
    return (
        torch.equal(own, values)
        and indices.unique().numel() == kept
        and torch.equal(own.abs().sort()[0], wanted.sort()[0])
    )


class Case:
    """One size and ratio: buffers, and the ways to select."""

    def __init__(self, count: int, ratio: float) -> None:
        """Fill the buffers with normal values."""
        self.count, self.ratio, self.kept = count, ratio, int(count * ratio)
        self.gradient, self.residual, self.left = (torch.randn(count, device="cuda") * 1e-3 for _ in range(3))
        self.magnitudes = self.gradient.abs()
        self.topk = CudaTopk(self.gradient.device, count, self.kept)
        self.payload = torch.empty(payload_bytes(self.kept), dtype=torch.uint8, device="cuda")

    def torch_plain(self) -> None:
        self.magnitudes.topk(self.kept, sorted=False)

    def torch_feedback(self) -> None:
        acc = self.gradient + self.residual
        indices = acc.abs().topk(self.kept, sorted=False)[1]
        self.values = acc[indices]
        acc[indices] = 0

    def plain(self, method: Method = Method.EXACT) -> None:
        self.topk.select(self.gradient, self.kept, self.payload, method=method)

    def feedback(self, method: Method = Method.EXACT) -> None:
        self.topk.select(
            self.gradient,
            self.kept,
            self.payload,
            residual=self.residual,
            next_residual=self.left,
            method=method,
        )

    def row(self, way: str, repeats: int) -> bool:
        """Measure plain selection or error feedback, print the row; return whether the goal is met."""
        is_plain = way == "plain"
        ours = self.plain if is_plain else self.feedback
        times = in_turn(
            {
                "torch": self.torch_plain if is_plain else self.torch_feedback,
                "ours": ours,
                "graph": as_graph(ours),
                "mstopk": lambda: ours(Method.MSTOPK),
            },
            repeats,
        )
        ours()
        acc = self.gradient if is_plain else self.gradient + self.residual
        right = same_set(self.payload, self.kept, acc)
        goal = _GOALS[self.count][0 if is_plain else 1]
        goal_us = _GOALS_US[self.count, self.ratio][0 if is_plain else 1]
        gain = times["torch"] / times["ours"]
        print(
            f"{self.count:>11} {self.ratio:>6} {way:>8} {times['torch']:>8.1f} {times['ours']:>8.1f} "
            f"{times['graph']:>8.1f} {times['mstopk']:>8.1f} {gain:>6.1f} {goal:>5} {goal_us:>8} "
            f"{'exact' if right else 'WRONG'}",
            flush=True,
        )
        return right and gain >= goal


def main() -> int:
    """Print the table; return 1 if a selection is wrong or a goal is missed."""
    parser = argparse.ArgumentParser(description="top-k selection on the GPU against torch")
    parser.add_argument("--repeats", type=int, default=25)
    given = parser.parse_args()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, fp32, medians of {given.repeats}, us of the device"
    )
    print(
        f"{'elements':>11} {'ratio':>6} {'way':>8} {'torch':>8} {'ours':>8} {'graph':>8} {'mstopk':>8} {'times':>6} "
        f"{'goal':>5} {'goal us':>8} selection"
    )
    met = True
    for count in _GOALS:
        for ratio in _RATIOS:
            case = Case(count, ratio)
            for way in ("plain", "feedback"):
                met = case.row(way, given.repeats) and met
            case.topk.release()
    return int(not met)


if __name__ == "__main__":
    raise SystemExit(main())
