"""Stored runs as a table for people and as a ``clusterctl.results/1`` document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from clusterctl.documents.results import ExportedRun, Results, StoredRun
from clusterctl.foreign import json_value
from clusterctl.report.text.run_list import age
from clusterctl.report.text.table import columns, fits, with_notes
from clusterctl.results.record import Record, Summary


def to_document(runs: Sequence[Summary]) -> dict[str, Any]:
    """Return the runs' columns as a ``clusterctl.results/1`` document, in the order given."""
    return Results(runs=[StoredRun(**_columns(run)) for run in runs]).document()


def _columns(run: Summary) -> dict[str, Any]:
    key = None if run.key is None else json_value(run.key)
    return {**asdict(run), "versions": list(run.versions), "key": key}


def figure(run: Summary) -> str:
    """Return a run's main figure with its unit: ``355.5 GB/s``."""
    if run.figure is None:
        return "-"
    digits = 2 if run.figure < 10 else 1 if run.figure < 10_000 else 0
    return f"{run.figure:.{digits}f} {run.unit}"


def render(runs: Sequence[Summary], width: int | None = None, now: datetime | None = None) -> str:
    """Return one line per run: its id, age, benchmark, configuration and main figure.

    If the table is wider than ``width`` (None: unlimited), the configuration moves to a second line.
    """
    present = now or datetime.now(timezone.utc)
    rows = [
        [
            run.run,
            age(run.run, present),
            run.benchmark,
            run.library or "-",
            run.launcher or "-",
            "-" if run.np is None else str(run.np),
            "-" if run.nodes is None else str(run.nodes),
            figure(run),
            run.status,
            run.hardware or "-",
            run.label or "",
        ]
        for run in runs
    ]
    heads = [
        "run",
        "age",
        "benchmark",
        "library",
        "launcher",
        "ranks",
        "nodes",
        "best",
        "status",
        "hardware",
        "label",
    ]
    text = columns(heads, rows, left=(0, 1, 2, 3, 4, 8, 9, 10))
    if width is None or fits(text, width):
        return text
    first = (0, 1, 2, 7, 8)
    lines = columns([heads[i] for i in first], [[row[i] for i in first] for row in rows], left=(0, 1, 2, 4))
    return with_notes(lines, [_ran_on(row) for row in rows], width)


def _ran_on(row: Sequence[str]) -> str:
    library, launcher, ranks, nodes, hardware = row[3], row[4], row[5], row[6], row[9]
    label = f"; {row[10]}" if row[10] else ""
    return f"{library}, {launcher}, ranks {ranks}, nodes {nodes}, {hardware}{label}"


def exported(record: Record) -> ExportedRun:
    """Return the part of a run in a ``clusterctl.results-export/1`` document: columns, commands, the result."""
    return ExportedRun(
        **_columns(record.summary), commands=list(record.commands), document=dict(record.document)
    )
