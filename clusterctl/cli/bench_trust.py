"""The options of ``bench`` about trust: what it is held against, and which slowness is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.results.baseline import Baseline
    from clusterctl.results.model import BenchResult

BaselineOption = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates this at run time on 3.10
    typer.Option(
        "--baseline", metavar="NAME", help="Fail (1) when figures are below this recorded baseline."
    ),
]
SlowPathOption = Annotated[
    bool,
    typer.Option("--allow-slow-path", help="A fall-back from GPUDirect RDMA is said, but no failure."),
]


def baseline_of(name: str | None, runs: Path | None, *, compared: bool) -> Baseline | None:
    """Read the baseline before anything is measured; ResultError when it is not there, UsageError with --compare."""
    if name is None:
        return None
    if compared:
        raise UsageError(
            "--baseline judges one configuration, and --compare measures several", hint="use one of them"
        )
    from clusterctl.results import baseline_files

    return baseline_files.load(name, runs)


def held_against(result: BenchResult, baseline: Baseline | None) -> BenchResult:
    """Return the result with its comparison in the proof; a run that failed stays failed."""
    if baseline is None:
        return result
    from clusterctl.results import baseline as rules

    found = rules.compare(baseline, result.document())
    status = result.status
    if status == "ok" and found.verdict != "ok":
        # A gate that found nothing to compare must not be green.
        status = "below-baseline" if found.verdict == "below-baseline" else "failed"
    return result.model_copy(
        update={"status": status, "proof": {**result.proof, "baseline": found.document()}}
    )
