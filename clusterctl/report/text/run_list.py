"""The runs of all commands as a table, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from clusterctl import run_ids
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.inventory import nodeset
from clusterctl.report.text.table import columns, fits, with_notes

_HEADS = ("run", "verb", "age", "outcome", "nodes", "label")


def render(runs: Sequence[ListedRun], width: int | None = None, now: datetime | None = None) -> str:
    """Return one line per run; if the table is wider than ``width``, nodes and label move to a second line."""
    present = now or datetime.now(timezone.utc)
    rows = [
        [one.run, one.verb, age(one.run, present), said(one), named(one), one.label or ""] for one in runs
    ]
    text = columns(_HEADS, rows, left=range(6))
    if width is None or fits(text, width):
        return text
    lines = columns(_HEADS[:4:2] + _HEADS[3:4], [[row[0], row[2], row[3]] for row in rows], left=range(3))
    return with_notes(lines, ["; ".join(filter(None, row[4:])) or "-" for row in rows], width)


def said(one: ListedRun) -> str:
    """Return the outcome of a run, with its detail."""
    word = one.outcome.value
    if one.outcome is RunOutcome.UNMET and one.detail:
        return one.detail  # which may be "5 unreachable" alone
    return (one.detail if word in one.detail else f"{word}: {one.detail}") if one.detail else word


def named(one: ListedRun) -> str:
    """Return the nodes of a run, folded, with their number if there are several."""
    return nodeset.fold_counted(one.nodes) or "-"


def age(run: str, now: datetime) -> str:
    """Return how long ago a run began: ``5 min``, ``3 h``, ``12 d``."""
    began = run_ids.started_at(run)
    if began is None:
        return "-"
    seconds = max(0, int((now - began).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
