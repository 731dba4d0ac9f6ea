"""What several runs were measured with, side by side: the fields of their keys, and what libraries said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.foreign import json_value
from clusterctl.results.record import Record


@dataclass(frozen=True, slots=True)
class Line:
    """One field and every run's value of it; ``differs``: not all are the same."""

    field: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def lines(records: Sequence[Record]) -> list[Line]:
    """Return the fields that say something of any of the runs, in the order of a key."""
    keys = [json_value(record.summary.key) if record.summary.key else {} for record in records]
    found = [Line(field, tuple(str(key.get(field, ABSENT)) for key in keys)) for field in FIELDS]
    said = [
        Line("libraries say", tuple("; ".join(record.summary.versions) or ABSENT for record in records)),
        Line("clusterctl", tuple(record.summary.clusterctl_version or ABSENT for record in records)),
    ]
    return [line for line in (*found, *said) if set(line.values) != {ABSENT}]
