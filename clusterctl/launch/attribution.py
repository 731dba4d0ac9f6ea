"""Attribute each piece of a launcher's single output stream to the rank that wrote it.

A launcher may insert one rank's text into the middle of another rank's line, and a rank may print text that looks like
a tag. Each reader here therefore accepts only marks that a rank cannot forge by printing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]
# No launch has rank numbers of more digits, and Python refuses to convert thousands of digits.
_RANK = r"(?P<rank>\d{1,9})"


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold text that one rank wrote, with its line end if it has one; ``rank`` None: the launcher's own text."""

    rank: int | None
    stream: Stream
    text: str


class Reader(Protocol):
    """Split one line of a launcher's stream, without its line end, into pieces."""

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the pieces of one line in order."""


class MarkedTags:
    """Read ``[mark,rank]<stdout>:`` anywhere in a line: ``mark`` is random, and ranks never receive it."""

    def __init__(self, mark: str) -> None:
        self._tag = re.compile(rf"\[{re.escape(mark)},{_RANK}\]<(stdout|stderr)>:")

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the pieces of one line in order."""
        parts = self._tag.split(line)
        if parts[0] or len(parts) == 1:
            yield Piece(None, "stderr", parts[0] + "\n")
        for index in range(1, len(parts), 3):
            end = "\n" if index + 3 >= len(parts) else ""
            yield Piece(int(parts[index]), _stream(parts[index + 1]), parts[index + 2] + end)


@dataclass(frozen=True, slots=True)
class LeadingTags:
    """Read ``[job,rank]<stdout>: `` at the start of a line, for launchers that write whole lines (Open MPI 5)."""

    pattern: re.Pattern[str] = re.compile(rf"\[\d{{1,20}},{_RANK}\]<(?P<stream>stdout|stderr)>: ?")

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the line as one piece: a later tag in it is text of the rank that wrote the line."""
        tag = self.pattern.match(line)
        if tag is None:
            yield Piece(None, "stderr", line + "\n")
        else:
            yield Piece(int(tag["rank"]), _stream(tag["stream"]), line[tag.end() :] + "\n")


_ELEMENT = re.compile(
    rf'<(?P<stream>stdout|stderr|stddiag)(?: rank="{_RANK}")?>(?P<text>[^<]*)(?:</(?P=stream)>)?'
)
_REFERENCE = re.compile(r"&(?:#(?P<code>\d{1,3})|(?P<name>amp|lt|gt));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">"}
_FRAME = re.compile(r"</?mpirun>")


class XmlElements:
    """Read Open MPI 4's ``--xml``, which escapes ``<`` in the output of ranks: each element is the launcher's own.

    ``--tag-output`` is not safe: it writes tags into other ranks' lines, where a forged tag looks the same.
    An element holds at most 4096 bytes of a rank, and ends early if its escaped form would exceed 8192 (constants of
    Open MPI 4: ORTE_IOF_BASE_MSG_MAX, ORTE_IOF_BASE_TAGGED_OUT_MAX).
    """

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the elements of one line, then the launcher's own text around them."""
        outside, at = [], 0
        for element in _ELEMENT.finditer(line):
            outside.append(line[at : element.start()])
            at = element.end()
            if element["rank"] is None or element["stream"] == "stddiag":
                outside.append(_unescaped(element["text"]).removesuffix("\n"))
            else:
                yield Piece(int(element["rank"]), _stream(element["stream"]), _unescaped(element["text"]))
        outside.append(line[at:])
        own = _FRAME.sub("", "".join(outside))
        if own or not line:
            yield Piece(None, "stderr", own + "\n")


def _stream(name: str) -> Stream:
    return "stdout" if name == "stdout" else "stderr"


def _unescaped(text: str) -> str:
    """Return the text as the rank wrote it; Open MPI escapes each byte of a non-ASCII character separately."""

    def character(reference: re.Match[str]) -> str:
        code = reference["code"]
        if code is None:
            return _NAMED[reference["name"]]
        return chr(int(code)) if int(code) < 256 else reference[0]

    if "&" not in text:
        return text
    escaped = _REFERENCE.sub(character, text)
    try:
        return escaped.encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return escaped
