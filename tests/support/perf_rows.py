"""The rows of a perf program's table, read by their places, as users of nccl-tests do."""

from __future__ import annotations

import re

ROW = re.compile(
    r"^\s*(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>\S+)\s+(?P<redop>\S+)\s+(?P<root>-?\d+)"
    r"\s+(?P<time>[\d.]+)\s+(?P<algbw>[\d.]+)\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\d+)"
    r"\s+(?P<time_in>[\d.]+|N/A)\s+(?:[\d.]+|N/A)\s+(?:[\d.]+|N/A)\s+(?P<wrong_in>\d+|N/A)$",
    re.MULTILINE,
)


def rows_of(output: str) -> list[re.Match[str]]:
    """Return a match per row; ``wrong`` is of the run out of place, ``wrong_in`` of that in place."""
    return list(ROW.finditer(output))
