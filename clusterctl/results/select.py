"""Selection of runs: the value of ``--since`` as a point in time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from clusterctl.errors import UsageError

_AGO = re.compile(r"^(\d{1,6})\s*([mhdw])$")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def since(text: str, now: datetime | None = None, option: str = "--since") -> str:
    """Return the time that ``7d``, ``12h``, ``2026-11-01`` or an ISO time names, in RFC 3339 and UTC.

    A time without a zone is in the zone of this machine. UsageError for any other text.
    """
    now = now or datetime.now(timezone.utc)
    ago = _AGO.match(text.strip())
    try:
        if ago:
            moment = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            # Python 3.10 does not parse the suffix Z.
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
        return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        raise UsageError(
            f"cannot read {option} {text!r} as a time",
            hint="expected an age (90m, 12h, 7d, 4w) or a date (2026-11-01)",
        ) from None
