"""Read environment variables by their own names; documented names of other libraries count as aliases.

The C++ side has the same rules in src/common/env.cc: an own name beats its aliases, an earlier alias a later one,
and a warning is given once when two are set and differ. A value that cannot be understood is an error.
"""

from __future__ import annotations

import logging
import os
from difflib import get_close_matches
from functools import cache

from collective_core.environment_table import VARIABLES, Variable
from collective_core.errors import CollectiveCoreError, Result

_logger = logging.getLogger("collective_core")
_BY_NAME = {variable.name: variable for variable in VARIABLES}
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
# CCORE_TCP_STREAM resembles CCORE_TCP_STREAMS by 0.97, CCORE_2D_LIMITS CCORE_2D_LIMIT by 0.97.
_RESEMBLANCE = 0.9
_read: dict[str, str] = {}


def text(name: str) -> str:
    """Return the value, or "" when it is set under none of its names. An unset and an empty one are the same."""
    return _found(_BY_NAME[name])[1]


def flag(name: str, *, fallback: bool) -> bool:
    """Return whether it is switched on; raises CollectiveCoreError unless it is 0 or 1 (or true, no, ...)."""
    spelling, value = _found(_BY_NAME[name])
    if not value:
        return fallback
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise _refuse(spelling, value, "0 or 1")


def choice(name: str) -> str:
    """Return one of the choices, or the default if it is unset; raises CollectiveCoreError for anything else."""
    variable = _BY_NAME[name]
    spelling, value = _found(variable)
    if not value:
        return variable.default
    if value.lower() not in variable.choices:
        raise _refuse(spelling, value, " or ".join(variable.choices))
    return value.lower()


def integer(name: str, fallback: int, least: int, most: int) -> int:
    """Return a whole number; raises CollectiveCoreError unless it is one from `least` to `most`."""
    spelling, value = _found(_BY_NAME[name])
    if not value:
        return fallback
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise _refuse(spelling, value, f"a whole number from {least} to {most}")
    return number


def number(name: str, fallback: float, least: float, most: float) -> float:
    """Return a number with a fraction; raises CollectiveCoreError unless it is from `least` to `most`."""
    spelling, value = _found(_BY_NAME[name])
    if not value:
        return fallback
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not least <= found <= most:  # also true for nan
        raise _refuse(spelling, value, f"a number from {least:g} to {most:g}")
    return found


def read() -> dict[str, str]:
    """Return the variables that Python code of this process has read so far and found set, as they were spelled."""
    return dict(_read)


def spelling(name: str) -> str:
    """Return the name under which a variable is set, its own name if it is unset."""
    return _first_set(_BY_NAME[name]) or name


def overridden() -> dict[str, str]:
    """Return each variable that is set here but ignored, and the assignment that takes precedence over it."""
    found = {}
    for variable in VARIABLES:
        winner = _first_set(variable)
        for name in variable.aliases:
            if winner and name != winner and os.environ.get(name):
                found[name] = f"{winner}={os.environ[winner]}"
    return found


@cache
def warn_of_misspelt() -> None:
    """Warn once of each variable that is not read and resembles one that is."""
    names = [name for variable in VARIABLES for name in (variable.name, *variable.aliases)]
    for name in sorted(os.environ.keys() - names):
        near = (
            get_close_matches(name, _BY_NAME, n=1, cutoff=_RESEMBLANCE) if name.startswith("CCORE_") else []
        )
        if near:
            _logger.warning("%s is not a variable of collective_core; did you mean %s?", name, near[0])


def _first_set(variable: Variable) -> str | None:
    return next((name for name in (variable.name, *variable.aliases) if os.environ.get(name)), None)


def _found(variable: Variable) -> tuple[str, str]:
    """Return the name that counts and its value."""
    given = [(name, os.environ[name]) for name in (variable.name, *variable.aliases) if os.environ.get(name)]
    if not given:
        return variable.name, ""
    for other, value in given[1:]:
        if value != given[0][1]:
            _warn_once(given[0][0], given[0][1], other, value)
    _read[given[0][0]] = given[0][1]
    return given[0]


@cache
def _warn_once(winner: str, value: str, loser: str, other: str) -> None:
    _logger.warning("%s=%s counts, not its alias %s=%s", winner, value, loser, other)


def _refuse(name: str, value: str, expected: str) -> CollectiveCoreError:
    return CollectiveCoreError(Result.INVALID_ARGUMENT, f"{name}={value}: expected {expected}")
