"""Let commands to paste name the inventory as the user typed it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterctl.text import user_files

_PLACE = " INVENTORY"


class _Typed:
    word: str | None = None
    """The word behind a verb, with a space; empty if the command found the inventory itself, None outside of one."""


@contextmanager
def named(inventory: Path | None) -> Iterator[None]:
    """Let ``filled`` name the inventory of a command; None: the command finds it without a word.

    A pipe of the shell cannot be read again, so that commands keep the place for a file.
    """
    if inventory is None:
        _Typed.word = ""
    elif not user_files.is_shell_pipe(inventory):
        _Typed.word = f" {shlex.quote(str(inventory))}"
    try:
        yield
    finally:
        _Typed.word = None


def filled(text: str, unknown: str = _PLACE) -> str:
    """Return a text with commands that have the inventory as it was typed where they have ``INVENTORY``.

    ``unknown`` is what they have outside of a command with an inventory.
    """
    return text.replace(_PLACE, unknown if _Typed.word is None else _Typed.word)
