"""``bench --baseline`` and ``--allow-slow-path``: decide whether a result passes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.documents.bench import BenchResult
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
