"""One line of text for a terminal, with the tones of its parts; light, because help and errors are lines, too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Tone(str, Enum):
    """Tell how a cell, an item or a part of a line is to be seen; pages and terminals choose the colour."""

    PLAIN = ""
    GOOD = "good"
    OPEN = "open"
    BAD = "bad"
    FAINT = "faint"
    FIXABLE = "fixable"
    """Open, and done by the next command."""
    HEAD = "head"
    """What the following is about, or a result in one line."""
    NAME = "name"
    """What a reader can type, or looks for."""


_LABELS = {
    **dict.fromkeys(("error", "failed"), Tone.BAD),
    **dict.fromkeys(("warning", "note", "CAUTION", "DOUBTFUL"), Tone.OPEN),
    **dict.fromkeys(("hint", "next", "then", "Next"), Tone.NAME),
}
"""The tones of the words with which messages begin."""


@dataclass(frozen=True, slots=True)
class TonedLine:
    """One line; ``marks`` are the start, end and tone of parts, in their order. Further lines in ``text`` have none."""

    text: str
    marks: tuple[tuple[int, int, Tone], ...] = ()


def whole(text: str, tone: Tone) -> TonedLine:
    """Return a line of one tone."""
    return TonedLine(text, ((0, len(text), tone),))


def labelled(text: str, tone: Tone = Tone.PLAIN) -> TonedLine:
    """Return a line whose label, which is all before the first colon, has its own tone, or else ``tone``."""
    label, colon, _ = text.partition(":")
    start = len(label) - len(label.lstrip(" "))
    tone = _LABELS.get(label[start:], tone)
    return TonedLine(text, ((start, len(label), tone),)) if colon and tone else TonedLine(text)
