"""``bench --baseline``, ``--min-efficiency`` and ``--allow-slow-path``: decide whether a result passes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.documents.bench import BenchResult
    from clusterctl.launch.request import Request
    from clusterctl.results.baseline import Baseline


def baseline_of(name: str | None, runs: Path | None, *, compared: bool) -> Baseline | None:
    """Load the baseline before the measurement; raise ResultError if it is missing, UsageError with --compare."""
    if name is None:
        return None
    if compared:
        raise UsageError(
            "--baseline and --compare cannot be combined",
            hint="leave one out: a baseline applies to one configuration",
        )
    from clusterctl.results import baseline_files

    return baseline_files.load(name, runs)


def held_against(result: BenchResult, baseline: Baseline | None) -> BenchResult:
    """Return the result with its comparison to the baseline; a failed run stays failed."""
    if baseline is None:
        return result
    from clusterctl.documents.bench import BenchStatus
    from clusterctl.results import baseline as rules

    found = rules.compare(baseline, result)
    status = result.status
    if status is BenchStatus.OK and found.verdict != "ok":
        # A CI gate must not pass if nothing could be compared.
        below = found.verdict == "below-baseline"
        status = BenchStatus.BELOW_BASELINE if below else BenchStatus.NOT_JUDGED
    proof = result.proof.model_copy(update={"baseline": found.part()})
    return result.model_copy(update={"status": status, "proof": proof})


def require_curve(min_efficiency: float | None, request: Request) -> None:
    """Raise UsageError if the request measures no efficiency that a threshold could judge."""
    if min_efficiency is None:
        return
    if request.is_collective:
        raise UsageError("--min-efficiency judges trainings", hint="add --model resnet50 or another model")
    points = request.points or ()
    # Without --scaling, a training chooses its points, and a program runs with one number of ranks.
    single = request.np is not None or request.program is not None
    if (single and not points) or (points and (1 not in points or max(points) < 2)):
        raise UsageError(
            "--min-efficiency needs one rank and more ranks to compare",
            hint="leave out -np, or add 1 and a larger number to --scaling",
        )


def held_to(result: BenchResult, min_efficiency: float | None) -> BenchResult:
    """Return the result, judged by the least efficiency (percent) of its points; a failed run stays failed."""
    if min_efficiency is None:
        return result
    from clusterctl.documents.bench import BenchStatus

    share = min_efficiency / 100
    found = [point.efficiency for one in result.variants for point in one.points if point.np > 1]
    status = result.status
    if status is BenchStatus.OK and None in (found or [None]):
        status = BenchStatus.NOT_JUDGED
    if status in (BenchStatus.OK, BenchStatus.NOT_JUDGED) and any(e is not None and e < share for e in found):
        status = BenchStatus.BELOW_THRESHOLD
    proof = result.proof.model_copy(update={"min_efficiency": share})
    return result.model_copy(update={"status": status, "proof": proof})
