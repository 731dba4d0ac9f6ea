"""Read options that hold a time: a length such as ``90s`` or ``10m``, or a moment such as ``7d`` ago or a date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from clusterctl.cli import options as cli
from clusterctl.errors import UsageError

_LENGTH = re.compile(r"([0-9]{1,9}) ?([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _length(text: str) -> float | None:
    """Return the seconds in ``90s``, ``10m``, ``2h``, ``1d`` or ``4w``; None for any other text."""
    found = _LENGTH.fullmatch(text.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None


def seconds(text: str, flag: str) -> float:
    """Return the seconds in a text such as ``10m``; raise UsageError for any other text, and for more than a year."""
    found = _length(text)
    if found is None:
        raise UsageError(
            f"{flag} {text[:40]!r} is not a time",
            hint="give seconds, minutes, hours, days or weeks: 90s, 10m, 2h, 1d, 1w",
        )
    cli.require_seconds(found, flag)
    return found


def since(text: str, now: datetime | None = None, option: str = "--since") -> str:
    """Return the moment that ``7d``, ``12h``, ``2026-11-01`` or an ISO time names, in RFC 3339 and UTC.

    A time without a zone is in the zone of this machine. UsageError for any other text.
    """
    ago = _length(text)
    try:
        if ago is not None:
            moment = (now or datetime.now(timezone.utc)) - timedelta(seconds=ago)
        else:
            # Python 3.10 does not parse the suffix Z.
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
        return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        raise UsageError(
            f"cannot read {option} {text!r} as a time",
            hint="expected an age (90m, 12h, 7d, 4w) or a date (2026-11-01)",
        ) from None
