"""Damage in stored results: a damaged run is skipped or named in an error instead of a traceback."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from clusterctl.errors import ResultError
from clusterctl.foreign import json_value
from clusterctl.results.record import Summary

_MOST = 1e18
HINT = "read it again from its run folder: clusterctl results import DIR"
_TYPES: Mapping[str, tuple[type, ...]] = {"np": (int,), "nodes": (int,), "figure": (int, float)}
_REQUIRED = ("run", "started_at", "benchmark", "status", "versions")


@contextmanager
def read_as_stored(run: str, path: Path) -> Iterator[None]:
    """Turn exceptions that a malformed document raises in the block into a ResultError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise ResultError(f"the result of run {run} in {path} is damaged: {why}", hint=HINT) from error


def summary(columns: Mapping[str, Any], path: Path) -> Summary:
    """Return the summary in a row's columns; ResultError names the run and the invalid column."""
    run = columns["run"]
    name = run[:80] if isinstance(run, str) else repr(run)[:80]
    for column in (field.name for field in fields(Summary)):
        value = columns[column]
        if value is None and column not in _REQUIRED:
            continue
        expected = _TYPES.get(column, (str,))
        if not isinstance(value, expected) or (isinstance(value, float) and not math.isfinite(value)):
            words = " or ".join(one.__name__ for one in expected)
            raise ResultError(
                f"run {name} in {path} is damaged: its {column} is {value!r:.60}, expected {words}", hint=HINT
            )
    with read_as_stored(name, path):
        moment = datetime.fromisoformat(columns["started_at"].replace("Z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError(f"started_at {columns['started_at']!r:.60} has no time zone")
        moment.timestamp()
        if columns["key"] is not None and not all(
            isinstance(one, str) for one in parsed(columns["key"], dict).values()
        ):
            raise TypeError("the fields of its key must all be strings")
        versions = parsed(columns["versions"], list)
        if not all(isinstance(one, str) for one in versions):
            raise TypeError("its versions must all be strings")
        return Summary(**{**columns, "versions": tuple(versions)})


def parsed(text: object, kind: type[Any]) -> Any:
    """Return the JSON value in a column; ValueError or TypeError for invalid JSON or another type.

    A fraction that is not finite or beyond 1e18 becomes None: JSON cannot represent it, or a unit's factor would make
    it infinite.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text, not {type(text).__name__}")
    value = _within_bounds(json_value(text, not_finite=lambda _: None))
    if not isinstance(value, kind):
        raise TypeError(f"expected a JSON {kind.__name__}, not {type(value).__name__}")
    return value


def _within_bounds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _within_bounds(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_within_bounds(one) for one in value]
    return None if isinstance(value, float) and abs(value) > _MOST else value
