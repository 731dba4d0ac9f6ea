"""The ids of runs: their parts, and the one way to find a run by a part of its id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from clusterctl.errors import UsageError

LATEST = "latest"
BENCHMARKS = ("bench", "launch")
"""The commands whose runs are benchmarks."""
_SHAPE = re.compile(r"([0-9]{8}T[0-9]{6}Z)-([a-z]+)-([0-9a-f]{4,})")
_STAMP = "%Y%m%dT%H%M%SZ"
_TOLD = 5


def make(verb: str, random: str) -> str:
    """Return the id of a run that begins now: ``20261122T015714Z-bench-1a2b``."""
    return f"{datetime.now(timezone.utc).strftime(_STAMP)}-{verb}-{random}"


def is_id(name: str) -> bool:
    """Return whether a name has the form of a run's id."""
    return _SHAPE.fullmatch(name) is not None


def verb_of(run: str) -> str:
    """Return the command of a run, from its id; empty if the id has another form."""
    found = _SHAPE.fullmatch(run)
    return found[2] if found else ""


def started_at(run: str) -> datetime | None:
    """Return the start of a run (UTC), from the beginning of its id; None if that is not a time."""
    try:
        return datetime.strptime(run.partition("-")[0], _STAMP).replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def resolve(wanted: str, ids: Sequence[str], place: str, of: str = "") -> str:
    """Return the one id that ``wanted`` names: an id or a path to it, a unique part of an id, or ``latest``.

    The beginning or the end of an id takes precedence over other parts. ``ids`` are the known runs, newest first;
    ``place`` says where they are, ``of`` names their commands. Raise UsageError if no run or several runs
    match.
    """
    last = wanted.rstrip("/").rpartition("/")[2]
    if is_id(last):
        wanted = last
    if wanted in ids or (wanted == LATEST and ids):
        return ids[0] if wanted == LATEST else wanted
    ends = [one for one in ids if wanted and (one.startswith(wanted) or one.endswith(wanted))]
    fitting = ends or [one for one in ids if wanted and wanted in one]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        more = f", and {len(fitting) - _TOLD} more" if len(fitting) > _TOLD else ""
        raise UsageError(
            f"{wanted!r} matches {len(fitting)} runs: {', '.join(fitting[:_TOLD])}{more}",
            hint="give more characters of the id",
        )
    kind = f" of {of}" if of else ""
    raise UsageError(
        f"run {wanted!r} not found in {place}",
        hint=f"the latest runs{kind} are: {', '.join(ids[:_TOLD])}"
        if ids
        else f"{place} has no run{kind} yet",
    )
