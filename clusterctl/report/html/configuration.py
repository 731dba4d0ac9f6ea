"""The configurations of compared runs: the fields of their keys, and the reported library versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.foreign import json_value
from clusterctl.results.record import Record


@dataclass(frozen=True, slots=True)
class ConfigurationRow:
    """One field with its value in every run; ``differs``: not all values are the same."""

    field: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def lines(records: Sequence[Record]) -> list[ConfigurationRow]:
    """Return the fields that have a value in at least one run, in the order of a key."""
    keys = [json_value(record.summary.key) if record.summary.key else {} for record in records]
    found = [ConfigurationRow(field, tuple(str(key.get(field, ABSENT)) for key in keys)) for field in FIELDS]
    said = [
        ConfigurationRow(
            "library versions", tuple("; ".join(record.summary.versions) or ABSENT for record in records)
        ),
        ConfigurationRow(
            "clusterctl", tuple(record.summary.clusterctl_version or ABSENT for record in records)
        ),
    ]
    return [line for line in (*found, *said) if set(line.values) != {ABSENT}]
