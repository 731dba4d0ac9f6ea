"""The time stamp of a log line, in the forms of the programs that the catalogue knows."""

from __future__ import annotations

import re
from calendar import month_abbr, timegm

_MONTHS = {name: at for at, name in enumerate(month_abbr)}
_CLOCK = r"(?P<h>[0-2]\d):(?P<m>[0-5]\d):(?P<s>[0-6]\d)(?P<f>[.,]\d{1,9})?"
_FORMS = (
    # NCCL, Slurm, Python's logging, docker and journalctl -o short-iso, also behind the tag of a launcher.
    re.compile(rf"(?<!\d)(?P<y>20\d\d)[-/](?P<month>[01]\d)[-/](?P<d>[0-3]\d)[T ]{_CLOCK}"),
    # syslog, journalctl and dmesg -T: Nov 21 07:00:00, [Sun Nov 21 07:00:00 2026].
    re.compile(
        rf"(?:^|[\[<\s])(?P<name>[A-Z][a-z]{{2}})\s{{1,2}}(?P<d>[0-3]?\d) {_CLOCK}(?: (?P<y>20\d\d)\b)?"
    ),
    # glog: E1012 10:11:12.131415, and torch without leading zeros: [E321 02:07:08.40.
    re.compile(rf"(?:^|\[)[IWEF](?P<month>[01]?\d)(?P<d>[0-3]\d) {_CLOCK}"),
)


def wall_clock(line: str) -> float | None:
    """Return the time at the beginning of a line in seconds of the clock that wrote it, None without a stamp.

    The time zone is ignored, and a stamp without a year is of 2000: two times compare if one clock and one year wrote
    both. The seconds since boot of a kernel log are ignored.
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
        return (
            timegm((2000, month, int(part["d"]), int(part["h"]), int(part["m"]), int(part["s"]))) + fraction
        )
    return None
