"""``bench --smoke``: run a short checked all_reduce, then a few steps of ResNet50, for CI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterctl.cli.bench.run import Ended
    from clusterctl.cli.session import Session
    from clusterctl.launch.request import Request

# A working launch takes a fraction of this time, and a launch that hangs must not block the CI runner.
TIMEOUT_S = 180.0


def requests(request: Request) -> tuple[Request, Request]:
    """Return the two requests of a smoke test, with the ranks, library and launcher of ``request``."""
    from dataclasses import replace

    from clusterctl.benchmarks.training import Training

    sweep: dict[str, Any] = {
        "min_bytes": 8, "max_bytes": 2 << 20, "step_factor": 8, "iters": 5, "warmup_iters": 2, "check": True
    }  # fmt: skip
    points = (request.np,) if request.np is not None else None
    training = Training(model="resnet50", warmup=2, windows=2, steps=2)
    return replace(request, sweep=sweep, pair_if_alone=True), replace(
        request, training=training, points=points
    )


def run(
    session: Session, request: Request, runs: Path | None, label: str | None, show: Callable[[Ended], None]
) -> tuple[Ended, ...]:
    """Run both benchmarks, the second only if the first succeeded; show and return the ended runs."""
    from clusterctl.cli.bench.run import measure

    ended: list[Ended] = []
    for one in requests(request):
        ended.append(measure(session, one, (), 1, runs, label=label))
        show(ended[-1])
        if ended[-1].faults:
            break
    return tuple(ended)


def document(ended: tuple[Ended, ...]) -> dict[str, Any]:
    """Return both results as one document."""
    from clusterctl.documents.bench import Smoke
    from clusterctl.documents.words import Success

    failed = any(one.faults for one in ended)
    results = tuple(one.result.document() for one in ended)
    return Smoke(status=Success.FAILED if failed else Success.OK, results=results).document()
