"""Suggest an option for a mistyped one, or the commands that have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterctl.cli.description import CommandDescription
from clusterctl.text.closest import closest

_MOST = 2


def alike(option: str, known: Sequence[str]) -> list[str]:
    """Return the options that resemble a mistyped one, or that it abbreviates."""
    longer = [one for one in known if one.startswith(option)]
    return longer[:_MOST] or closest(option, [one for one in known if one.startswith("--")], _MOST)


def owners(option: str, whole: CommandDescription) -> list[str]:
    """Return the commands that have an option, by their words after ``clusterctl``."""
    return [
        command.path.partition(" ")[2]
        for command in _all(whole)
        for one in command.parameters
        if one.is_option and option in one.spellings
    ]


def _all(command: CommandDescription) -> Iterator[CommandDescription]:
    for below in command.commands.values():
        yield below
        yield from _all(below)
