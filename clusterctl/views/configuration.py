"""The configurations of compared runs: the fields of their keys, and the reported library versions."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.report.line import Tone
from clusterctl.report.view import Cell, Head, Table
from clusterctl.results.record import Record


def table(records: Sequence[Record], letters: Sequence[str]) -> Table:
    """Return the fields that have a value in at least one run, in the order of a key; differences stand out."""
    keys = [record.summary.key or {} for record in records]
    found = {field: [str(key.get(field, ABSENT)) for key in keys] for field in FIELDS}
    found["library versions"] = ["; ".join(record.summary.versions) or ABSENT for record in records]
    found["clusterctl"] = [record.summary.clusterctl_version or ABSENT for record in records]
    rows = tuple(
        (Cell(field), *(Cell(one, Tone.OPEN if len(set(values)) > 1 else Tone.PLAIN) for one in values))
        for field, values in found.items()
        if set(values) != {ABSENT}
    )
    return Table(tuple(map(Head, ("field", *letters))), rows, style="plain", title="Configuration")
