"""The list of runs: outcome, nodes, age and label of each; light, because it is often printed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime, timezone

from clusterctl.documents.runs import ListedRun
from clusterctl.inventory import nodeset
from clusterctl.report.view import Block, Cell, Head, Table, View
from clusterctl.results import words
from clusterctl.views.tones import OF_WORDS


def view(runs: Sequence[ListedRun], now: datetime | None = None) -> View:
    """Return one line per run of any command."""
    present = now or datetime.now(timezone.utc)
    rows, notes = [], []
    for one in runs:
        outcome = Cell(said(one), OF_WORDS[words.of_run(one)[0]])
        nodes, label = named(one.nodes), one.label or ""
        began = map(Cell, (one.run, one.verb, age(one.started_at, present)))
        rows.append((*began, outcome, Cell(nodes), Cell(label)))
        notes.append("; ".join(filter(None, (nodes, label))))
    names = ("run", "verb", "age", "outcome", "nodes", "label")
    heads = tuple(Head(name, words=True, wide=name in ("verb", "nodes", "label")) for name in names)
    return View("", (Block("", tables=(Table(heads, tuple(rows), notes=tuple(notes)),)),))


def said(one: ListedRun) -> str:
    """Return the word for a run, with the finer word or the detail that has it."""
    word, finer = words.of_run(one)
    if one.detail in ("", finer):
        return words.with_finer(word, finer)
    return f"{words.with_finer(word, '' if finer in one.detail else finer)}: {one.detail}"


@functools.lru_cache(maxsize=64)  # most runs of a list have the same nodes
def named(nodes: tuple[str, ...]) -> str:
    """Return the nodes of a run, folded, with their number if there are several."""
    return nodeset.fold_counted(nodes) or "-"


def age(began: str | None, now: datetime) -> str:
    """Return how long ago a run began (RFC 3339, UTC; None: unknown): ``5 min``, ``3 h``, ``12 d``."""
    if began is None:
        return "-"
    seconds = max(0, int((now - datetime.fromisoformat(began.replace("Z", "+00:00"))).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
