"""``runs rm`` and ``runs prune``: remove run folders, after a question."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.runs import listing
from clusterctl.cli.terminal import interrupt
from clusterctl.errors import ClusterctlError, UsageError
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.documents.runs import KeptRun, ListedRun
    from clusterctl.rundir import RunDir


def rm(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Ids, unique parts of ids, or 'latest'.")
    ],
    dry_run: cli.DryRunOption = False,
    yes: cli.YesOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Remove runs, which are their run folders.

    A run in progress, and an 'up' whose containers are up, cannot be removed.

    Exit code 0: removed; 1: you declined; 2: a run does not exist or is in use.
    """
    from clusterctl.rundir import RunDir
    from clusterctl.runs import removal

    found = list({run.id: run for run in (RunDir.open(name, runs) for name in names)}.values())
    for run in found:
        removal.refuse_in_use(run)
    raise typer.Exit(_remove(found, (), dry_run=dry_run, yes=yes, as_json=as_json))


def prune(
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, metavar="N", help="Keep the newest N runs.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Remove only runs that began before: 30d, 2026-11-01."
        ),
    ] = None,
    verb: listing.VerbOption = None,
    dry_run: cli.DryRunOption = False,
    yes: cli.YesOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Remove old runs.

    Kept and listed: runs in use, runs with a label, runs from which a baseline was recorded, and bootstraps that can
    be resumed. 'runs rm' removes these.

    Exit code 0: removed, or nothing to remove; 1: you declined.
    """
    from clusterctl.cli import times
    from clusterctl.documents.runs import KeptRun
    from clusterctl.rundir import RunDir, default_root
    from clusterctl.runs import outcome

    if keep is None and older_than is None:
        raise UsageError("nothing selects the runs", hint="give --keep N, --older-than 30d, or both")
    root = runs or default_root()
    found = listing.chosen(verb, runs)[keep or 0 :]
    if older_than is not None:
        moment = times.since(older_than, option="--older-than")
        found = [one for one in found if "" < listing.began(one) < moment]
    going: list[RunDir] = []
    kept: list[KeptRun] = []
    for run in (RunDir(root / one) for one in found):
        reason = _reason_to_keep(outcome.listed(run), run, root)
        if reason is None:
            going.append(run)
        else:
            kept.append(KeptRun(run=run.id, reason=reason))
    raise typer.Exit(_remove(going, kept, dry_run=dry_run, yes=yes, as_json=as_json))


def _reason_to_keep(one: ListedRun, run: RunDir, root: Path) -> str | None:
    from clusterctl.rundir import LABEL
    from clusterctl.runs import removal

    try:
        removal.refuse_in_use(run)
    except ClusterctlError as error:
        return error.message
    if one.label:
        return f"it has the label {one.label!r}"
    if os.path.lexists(run.file(LABEL)):
        return "its label.json cannot be read; 'runs label' writes another"
    return next(iter(removal.losses(one, root)), None)


def _remove(
    going: Sequence[RunDir], kept: Sequence[KeptRun], *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Show what is removed and kept, ask, remove, and return the exit code."""
    from clusterctl.documents.runs import RunsRemoved
    from clusterctl.report.text import of_view
    from clusterctl.runs import outcome, removal
    from clusterctl.views import run_list

    entries = [outcome.listed(run) for run in going]
    if entries and not (as_json and yes):
        # --quiet must not suppress what the question is about.
        write = console.data if dry_run and not as_json else console.error
        write(of_view.lines(run_list.view(entries), console.width()))
    for one, run in zip(entries, going, strict=True):
        for loss in removal.losses(one, run.path.parent):
            console.talk(f"note: {one.run}: {loss}")
    for other in kept:
        console.talk(f"kept: {other.run}: {other.reason}")
    several = f"{counted(len(going), 'run')}"
    if going and not dry_run and not yes and not interrupt.asked(f"Remove {several}?"):
        console.talk("nothing was removed")
        return 1
    for run in going if not dry_run else ():
        removal.remove(run)
    if as_json:
        ids = tuple(run.id for run in going)
        console.emit_json(RunsRemoved(dry_run=dry_run, removed=ids, kept=tuple(kept)).document())
    elif not going:
        console.talk("nothing to remove")
    elif not dry_run:
        console.talk(f"removed {several}")
    return 0
