"""No regular expression of the project takes long on a line that a hostile node, rank or file may hold.

Every pattern is applied, as the source applies it, to lines made of what it repeats. The time is the processor's, and
the limit is several times what a linear pattern takes: a quadratic one takes seconds for 64 KiB, others never end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import patterns_of_the_project as patterns
import pytest

LIMIT_S = 0.5
SIZES = (24, 512, 8 * 1024, patterns.LINE_CHARACTERS)
"""A pattern that is too slow shows it on a short line already, where it still ends."""


class TooSlow(Exception):
    """Raised in a match that does not end: the engine looks for signals now and then."""


def _apply(pattern: Any, function: str, line: Any) -> None:
    if function in ("sub", "subn"):
        getattr(pattern, function)(line[:0], line)
    elif function == "finditer":
        for _ in pattern.finditer(line):
            pass
    else:
        getattr(pattern, function)(line)


def slowest(used: patterns.Used) -> tuple[float, str]:
    """Return the most seconds that a line took, and that line shortened; ends at the first beyond the limit."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    worst = (0.0, "")
    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        for size in dict.fromkeys(min(size, used.most_characters) for size in SIZES):
            for line in patterns.adversarial(used.pattern, size):
                for function in sorted(used.functions):
                    began = time.process_time()
                    signal.setitimer(signal.ITIMER_VIRTUAL, 4 * LIMIT_S)
                    try:
                        _apply(used.pattern, function, line)
                    except TooSlow:
                        pass
                    finally:
                        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                    taken = time.process_time() - began
                    worst = max(worst, (taken, f"{function} of {len(line)}: {line[:40]!r}...{line[-8:]!r}"))
                    if taken > LIMIT_S:
                        return worst
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return worst


@pytest.mark.parametrize("patterns_of", [patterns.of_source, patterns.of_catalogue])
def test_a_pattern_takes_no_longer_than_a_line_is_long(
    patterns_of: Callable[[], list[patterns.Used]],
) -> None:
    found = patterns_of()
    assert len(found) > 300
    slow = [
        f"{used.place}: {used.pattern.pattern!r} takes {taken:.2f} s; {line}"
        for used in found
        for taken, line in [slowest(used)]
        if taken > LIMIT_S
    ]
    assert slow == []
