"""Command lines as text: quoted for a POSIX shell, and no more than it needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# shlex also quotes '^', which POSIX shells leave alone; Open MPI's ^openib reads better without.
_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-][A-Za-z0-9@%+=:,./_^-]*|\^[A-Za-z0-9,_-]+")

# At the start of a line these are no program's name: reserved words (POSIX, and bash's own).
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
