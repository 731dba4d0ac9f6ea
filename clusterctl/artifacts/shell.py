"""Command lines as text: quoted for a POSIX shell, and no more than it needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# shlex also quotes '^', which POSIX shells leave alone; Open MPI's ^openib reads better without.
_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-][A-Za-z0-9@%+=:,./_^-]*|\^[A-Za-z0-9,_-]+")


def line(argv: Sequence[str]) -> str:
    """Return one line that a shell splits into exactly these words."""
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in argv)
