"""Decide whether output is coloured, and colour the parts of lines by their tones.

``--color`` decides, then NO_COLOR and FORCE_COLOR, then whether the output goes to a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TextIO

from clusterctl.report.line import Tone, TonedLine

# The eight colours that every terminal has, in the shades that its user chose, as parameters of SGR (ECMA-48).
_COLOURS = {
    Tone.HEAD: 1,
    Tone.FAINT: 2,
    Tone.BAD: 31,
    Tone.GOOD: 32,
    Tone.OPEN: 33,
    Tone.NAME: 36,
    Tone.FIXABLE: 36,
}


class When(str, Enum):
    """Name the values of ``--color``."""

    auto = "auto"
    always = "always"
    never = "never"


@dataclass(slots=True)
class _Choice:
    when: When = When.auto


_choice = _Choice()


def choose(when: When) -> None:
    """Set what ``--color`` requested, for the whole process."""
    _choice.when = when


def wanted(stream: TextIO) -> bool:
    """Return whether text for this stream is coloured.

    NO_COLOR and FORCE_COLOR count if they are set and not empty (no-color.org, force-color.org).
    """
    if _choice.when is not When.auto:
        return _choice.when is When.always
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or takes_control(stream)


def takes_control(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that obeys control sequences.

    TERM is ``dumb`` for a terminal that does not (terminfo(5), user_caps(5): Emacs' shell, some CI systems).
    """
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def painted(line: TonedLine, clean: Callable[[str], str] = str) -> str:
    """Return the line with the colours of its marks; ``clean`` makes text of others harmless before."""
    shown, at = "", 0
    for start, end, tone in line.marks:
        if tone is Tone.PLAIN:
            continue
        shown += f"{clean(line.text[at:start])}\x1b[{_COLOURS[tone]}m{clean(line.text[start:end])}\x1b[0m"
        at = end
    return shown + clean(line.text[at:])
