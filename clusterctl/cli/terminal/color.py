"""Decide whether output is coloured: ``--color``, then NO_COLOR, FORCE_COLOR, then whether it goes to a terminal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TextIO


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
