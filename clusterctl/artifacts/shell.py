"""Quote command lines for a POSIX shell, with as few quotes as possible."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# shlex also quotes '^', which has no meaning in POSIX shells; Open MPI's ^openib is easier to read unquoted.
_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-][A-Za-z0-9@%+=:,./_^-]*|\^[A-Za-z0-9,_-]+")

# Reserved words of POSIX shells and bash, which are not program names at the start of a line.
_RESERVED = frozenset(
    (
        *("!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for"),
        *("function", "if", "in", "select", "then", "time", "until", "while"),
    )
)


def line(argv: Sequence[str]) -> str:
    """Return one line that a shell splits into exactly these words, the first as the program to run."""
    words = [word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in argv]
    first = argv[0] if argv else ""
    # A=b would be an assignment.
    if words and words[0] == first and ("=" in first or first in _RESERVED):
        words[0] = f"'{first}'"
    return " ".join(words)
