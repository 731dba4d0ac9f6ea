"""Which rank wrote each piece of a launcher's one stream: only what the launcher itself wrote decides.

Ranks choose their own text, and a launcher may cut it anywhere: into half a line of one rank it writes another rank's.
So a tag inside a line may be real or forged. Each reader here accepts what a rank cannot imitate by printing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]
# A rank number of more digits is forged; Python also refuses to convert thousands of them.
_RANK = r"(?P<rank>\d{1,9})"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that one rank wrote, with its line end where it has one; ``rank`` None: the launcher's own text."""

    rank: int | None
    stream: Stream
    text: str


class Reader(Protocol):
    """Takes one line of a launcher's stream, without its end, and yields what is in it."""

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the pieces of one line in their order."""


@dataclass(frozen=True, slots=True)
class MarkedTags:
    """``[mark,rank]<stdout>:``, wherever it stands: ``mark`` is random and no rank is given it."""

    mark: str

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the pieces of one line in their order."""
        parts = re.split(rf"\[{re.escape(self.mark)},(\d{{1,9}})\]<(stdout|stderr)>:", line)
        if parts[0] or len(parts) == 1:
            yield Piece(None, "stderr", parts[0] + "\n")
        for index in range(1, len(parts), 3):
            end = "\n" if index + 3 >= len(parts) else ""
            yield Piece(int(parts[index]), _stream(parts[index + 1]), parts[index + 2] + end)


@dataclass(frozen=True, slots=True)
class LeadingTags:
    """``[job,rank]<stdout>: `` at the begin of a line, for launchers that write whole lines (Open MPI 5)."""

    pattern: re.Pattern[str] = re.compile(rf"\[\d{{1,20}},{_RANK}\]<(?P<stream>stdout|stderr)>: ?")

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the line as one piece: what looks like a tag further on is text of the rank that wrote the line."""
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
    """Open MPI 4's ``--xml``: it escapes ``<`` in what ranks write, so that every element is its own.

    Its ``--tag-output`` writes tags into half lines of other ranks, where a forged one looks the same. An element
    holds at most 4096 bytes of a rank, and ends early where its escaped form would pass 8192 (both are constants of
    Open MPI 4: ORTE_IOF_BASE_MSG_MAX, ORTE_IOF_BASE_TAGGED_OUT_MAX).
    """

    def __call__(self, line: str) -> Iterator[Piece]:
        """Yield the elements of one line, and what the launcher wrote around them."""
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
    """Return what a rank wrote. Open MPI escapes each byte of a character outside ASCII by itself."""

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
