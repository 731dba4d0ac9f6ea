"""The list of runs: outcome, nodes, age and label of each; light, because it is often printed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime, timezone

from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.view import Block, Cell, Head, Table, View
from clusterctl.run_ids import BENCHMARKS

_TONES = {
    **dict.fromkeys(("ok", "changed"), Tone.GOOD),
    **dict.fromkeys(("failed", "unmet", "below-baseline", "below-threshold"), Tone.BAD),
    **dict.fromkeys(("planned", "up", "down"), Tone.PLAIN),
}
"""The tones of outcomes; others are open."""


def view(runs: Sequence[ListedRun], now: datetime | None = None) -> View:
    """Return one line per run of any command."""
    present = now or datetime.now(timezone.utc)
    rows, notes = [], []
    for one in runs:
        outcome = Cell(said(one), _tone(one))
        nodes, label = named(one.nodes), one.label or ""
        began = map(Cell, (one.run, one.verb, age(one.started_at, present)))
        rows.append((*began, outcome, Cell(nodes), Cell(label)))
        notes.append("; ".join(filter(None, (nodes, label))))
    names = ("run", "verb", "age", "outcome", "nodes", "label")
    heads = tuple(Head(name, words=True, wide=name in ("verb", "nodes", "label")) for name in names)
    return View("", (Block("", tables=(Table(heads, tuple(rows), notes=tuple(notes)),)),))


def _tone(one: ListedRun) -> Tone:
    """Return the tone of an outcome; a measurement that ended is not a verdict on what it measured."""
    if one.verb in BENCHMARKS and one.outcome is RunOutcome.OK:
        return Tone.PLAIN
    return _TONES.get(one.outcome.value, Tone.OPEN)


def said(one: ListedRun) -> str:
    """Return the outcome of a run, with its detail."""
    word = one.outcome.value
    if one.outcome is RunOutcome.UNMET and one.detail:
        return one.detail  # which may be "5 unreachable" alone
    return (one.detail if word in one.detail else f"{word}: {one.detail}") if one.detail else word


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
