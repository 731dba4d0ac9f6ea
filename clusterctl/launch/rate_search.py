"""Search the output of ranks for the lines of a regular expression.

This file uses only the standard library, because a process of its own runs it by path with a pattern of the user:
``python rate_search.py``, with a pattern and the output of each rank as JSON on standard input. The process is ended
after a time, because a pattern may need exponential time.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping

LONGEST_LINE = 4096
"""Characters of a line that are searched."""
_LONGEST_GROUP = 200
# A program that prints a rate for every step may print millions of them; the last ones count.
_MOST_LINES = 100_000


def last_matches(pattern: str, texts: Mapping[int, str]) -> dict[int, dict[str, str]]:
    """Return the groups in the last matching line of each rank that has one.

    A group without a name is called ``sample``.
    """
    compiled = re.compile(pattern)
    name_of = {number: name for name, number in compiled.groupindex.items()}
    found: dict[int, dict[str, str]] = {}
    for rank, text in texts.items():
        for line in reversed(text.splitlines()[-_MOST_LINES:]):
            if match := compiled.search(line[:LONGEST_LINE]):
                groups = {
                    name_of.get(number, "sample"): value[:_LONGEST_GROUP]
                    for number, value in enumerate(match.groups(), 1)
                    if value is not None
                }
                found[rank] = groups
                break
    return found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump(last_matches(asked["pattern"], asked["texts"]), sys.stdout)
