"""``help``: print the help of any command."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import console, verbs
from clusterctl.cli.description import CommandDescription, described
from clusterctl.cli.help import page
from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean


def show(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="A command, or a command of a group: runs compare."),
    ] = None,
) -> None:
    """Print the help of a command; of clusterctl itself without one.

    Exit code 0: printed; 2: unknown command.
    """
    from clusterctl.cli import main

    named = list(words or ())
    whole = described(main.application(verbs.named_in(named) if named else ""))
    console.data(page.lines(_found(whole, named), whole, page.width()))


def _found(command: CommandDescription, words: list[str]) -> CommandDescription:
    """Return the command that the words name below a command; raise UsageError if there is none."""
    if not words:
        return command
    below = command.commands
    if words[0] in below:
        return _found(below[words[0]], words[1:])
    if not below:
        raise UsageError(
            f"'{command.path}' has no commands, so '{words[0]}' is too much",
            hint=f"clusterctl help {command.path.partition(' ')[2]}",
        )
    raise UsageError(
        f"'{command.path}' has no command {words[0]!r}", hint=did_you_mean(words[0], list(below))
    )
