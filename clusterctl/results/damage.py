"""Damage in the results of run folders: a damaged run is skipped or named in an error instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusterctl.errors import ResultError
from clusterctl.text.foreign import json_value

_MOST = 1e18
HINT = "measure again, or remove the run: clusterctl runs rm RUN"


@contextmanager
def read_as_stored(run: str, path: Path) -> Iterator[None]:
    """Turn exceptions that a malformed document raises in the block into a ResultError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise ResultError(f"the result of run {run} in {path} is damaged: {why}", hint=HINT) from error


def parsed(text: object, kind: type[Any]) -> Any:
    """Return the JSON value of a text; ValueError or TypeError for invalid JSON or another type.

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
