"""Commands with their output as a Markdown page shows them, and whether a terminal shows the same today.

A page shortens output with ``...``: a line that begins with it stands for any lines, elsewhere it stands for any text.
Numbers with a point, run ids, addresses, blanks and empty lines are not compared: they differ from run to run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGES = (
    (re.compile(r"\d{8}T\d{6}Z-(\w+)-[0-9a-f]{4}"), r"RUN-\1"),
    (re.compile(r"\d+(\.\d+)+(:\d+)?"), "N"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the output below it."""

    command: str
    output: str


def shown_in(page: str) -> list[Shown]:
    """Return the commands of a page's ``console`` blocks, in their order."""
    pieces = [
        piece for block in BLOCK.findall(page) for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)
    ]
    return [Shown(*piece.split("\n", 1)) for piece in pieces if piece.strip()]


def _plain(text: str) -> str:
    for pattern, what in _CHANGES:
        text = pattern.sub(what, text)
    return text.strip()


def difference(shown: str, printed: str) -> str | None:
    """Return the first line of ``shown`` that ``printed`` lacks at its place, or None."""
    left = [_plain(line) for line in printed.splitlines() if line.strip()]
    anywhere = False
    for line in filter(str.strip, shown.splitlines()):
        if line.strip().startswith("..."):
            anywhere = True
            continue
        wanted = re.compile(".*".join(re.escape(_plain(piece)) for piece in line.split("...")))
        at = next((i for i, one in enumerate(left) if wanted.fullmatch(one)), None)
        if at is None or (at and not anywhere):
            return line
        left, anywhere = left[at + 1 :], False
    return None if anywhere or not left else f"the end of the output, before {left[0]!r}"
