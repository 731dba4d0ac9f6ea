"""The time stamp of a log line, in the forms of the programs that the catalogue knows."""

from __future__ import annotations

import re
from calendar import month_abbr, timegm
from collections.abc import Sequence
from typing import NamedTuple

_MONTHS = {name: at for at, name in enumerate(month_abbr)}
_CLOCK = r"(?P<h>[0-2]\d):(?P<m>[0-5]\d):(?P<s>[0-6]\d)(?P<f>[.,]\d{1,9})?"
_ZONE = r"(?P<zone>Z|(?:(?P<sign>[+-])(?P<zh>[01]\d):?(?P<zm>[0-5]\d)))?"
_FORMS = (
    # NCCL, Slurm, Python's logging, docker and journalctl -o short-iso, also behind the tag of a launcher.
    re.compile(rf"(?<!\d)(?P<y>20\d\d)[-/](?P<month>[01]\d)[-/](?P<d>[0-3]\d)[T ]{_CLOCK} ?{_ZONE}"),
    # syslog, journalctl and dmesg -T: Nov 21 07:00:00, [Sun Nov 21 07:00:00 2026].
    re.compile(
        rf"(?:^|[\[<\s])(?P<name>[A-Z][a-z]{{2}})\s{{1,2}}(?P<d>[0-3]?\d) {_CLOCK}(?: (?P<y>20\d\d)\b)?"
    ),
    # glog: E1012 10:11:12.131415, and torch without leading zeros: [E321 02:07:08.40.
    re.compile(rf"(?:^|\[)[IWEF](?P<month>[01]?\d)(?P<d>[0-3]\d) {_CLOCK}"),
)
_YEAR_S = 366 * 86400.0
"""The seconds of 2000, the year in which all stamps are compared."""


class Stamp(NamedTuple):
    """A time: seconds of the clock that wrote it in the year 2000, and how many of them it is ahead of UTC."""

    seconds: float
    ahead_s: int | None = None
    """None if the line has no time zone."""

    def until(self, other: Stamp) -> float:
        """Return the seconds from this time to another.

        Times with zones compare in UTC, others as one clock wrote both. Less than half a year lies between them, so
        that a January is after a December.
        """
        seconds = other.seconds - self.seconds
        if self.ahead_s is not None and other.ahead_s is not None:
            seconds += self.ahead_s - other.ahead_s
        return (seconds + _YEAR_S / 2) % _YEAR_S - _YEAR_S / 2


def earliest(stamps: Sequence[Stamp]) -> Stamp:
    """Return the stamp before the largest gap of the year in which no other one lies: the first of all."""
    ordered = sorted(stamps, key=lambda one: one.seconds)
    before = ordered[-1:] + ordered[:-1]
    gaps = [(one.seconds - last.seconds) % _YEAR_S for last, one in zip(before, ordered, strict=True)]
    return ordered[gaps.index(max(gaps))]


def stamp_of(line: str) -> Stamp | None:
    """Return the time at the beginning of a line, None without a stamp.

    The year is ignored, because most programs print none. The seconds since boot of a kernel log are ignored.
    """
    for form in _FORMS:
        match = form.search(line)
        if match is None:
            continue
        part = match.groupdict()
        month = _MONTHS.get(part["name"], 0) if part.get("name") else int(part["month"])
        if not 1 <= month <= 12 or not 1 <= int(part["d"]) <= 31:
            continue
        fraction = float((part["f"] or ".0").replace(",", "."))
        clock = (2000, month, int(part["d"]), int(part["h"]), int(part["m"]), int(part["s"]))
        return Stamp(timegm(clock) - timegm((2000, 1, 1, 0, 0, 0)) + fraction, _ahead(part))
    return None


def _ahead(part: dict[str, str | None]) -> int | None:
    zone = part.get("zone")
    if not zone:
        return None
    if zone == "Z":
        return 0
    seconds = int(part["zh"] or 0) * 3600 + int(part["zm"] or 0) * 60
    return -seconds if part["sign"] == "-" else seconds
