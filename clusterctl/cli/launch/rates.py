"""Check the program of ``launch`` and the pattern of its rate, before a node is contacted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import console
from clusterctl.errors import UsageError
from clusterctl.text.secret.scrub import scrubbed

if TYPE_CHECKING:
    from clusterctl.benchmarks.user_program import UserProgram

_FORM = "write it in quotes, with one group around the number: --rate 'samples/s: ([0-9.]+)'"
_LONGEST = 500


def program_of(words: Sequence[str], rate: str | None, *, per_rank: bool) -> UserProgram:
    """Return the program; raise UsageError for an empty word as program, and for a pattern without one group."""
    from clusterctl.benchmarks.user_program import UNITS, RateLine, UserProgram

    if not words[0] or words[0].startswith("-"):
        raise UsageError(
            f"{words[0]!r} is not a program",
            hint="write the program after '--': clusterctl launch -- python3 train.py",
        )
    if rate is None and per_rank:
        raise UsageError("--rate-per-rank requires --rate", hint=_FORM)
    if any(scrubbed(word) != word for word in (*words, " ".join(words))):
        console.talk(
            "note: an argument looks like a secret, and every account on the nodes can read command lines; "
            "put it into `env` of the inventory"
        )
    line = RateLine()
    if rate is not None:
        try:
            pattern = re.compile(rate[: _LONGEST + 1])
        except re.error as error:
            raise UsageError(
                f"--rate {rate[:60]!r} is not a regular expression: {error}", hint=_FORM
            ) from None
        if len(rate) > _LONGEST or pattern.groups != 1 or not {*pattern.groupindex} <= {*UNITS}:
            raise UsageError(
                f"--rate {rate[:60]!r} must have exactly one group, unnamed or named {', '.join(UNITS)}, and at most "
                f"{_LONGEST} characters",
                hint=f"{_FORM}; groups that are not read are written (?:...)",
            )
        line = RateLine(rate, per_rank)
    return UserProgram(tuple(words), line, str(Path.cwd()))
