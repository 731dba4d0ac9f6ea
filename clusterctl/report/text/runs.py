"""What exports have of a benchmark."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from clusterctl.documents.measured_runs import ExportedRun
from clusterctl.results.record import Record, Summary
from clusterctl.text.foreign import json_value


def _columns(run: Summary) -> dict[str, Any]:
    key = None if run.key is None else json_value(run.key)
    return {**asdict(run), "versions": list(run.versions), "key": key}


def exported(record: Record) -> ExportedRun:
    """Return the part of a run in a ``clusterctl.runs-export/1`` document: columns, commands, the result."""
    return ExportedRun(
        **_columns(record.summary), commands=list(record.commands), document=dict(record.document)
    )
