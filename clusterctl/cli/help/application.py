"""The application of all commands, whose help and usage are laid out by this package instead of Typer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from clusterctl.cli.description import CommandDescription, described
from clusterctl.cli.help import page
from clusterctl.cli.terminal import color
from clusterctl.report.line import TonedLine


class Application(typer.Typer):
    """Run a command line as Typer does, with the help of ``page``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        parsed = typer.main.get_command(self)
        whole = described(self)
        _give_help(parsed, whole, whole)
        return parsed(*args, **kwargs)


def _give_help(parsed: Any, command: CommandDescription, whole: CommandDescription) -> None:
    """Let a command that Typer parses print the help and the usage of its description."""
    vars(parsed).update(
        get_help=lambda _: _coloured(page.lines(command, whole, page.width())),
        get_usage=lambda _: page.usage(command, page.width()),
    )
    below: Mapping[str, Any] = getattr(parsed, "commands", {})
    for name, inner in below.items():
        _give_help(inner, command.commands[name], whole)


def _coloured(lines: Sequence[TonedLine]) -> str:
    """Return a page in the colours of the terminal; Typer removes them where it does not print to one."""
    is_coloured = sys.stdout.isatty() and color.wanted(sys.stdout)
    return "\n".join(color.painted(line) if is_coloured else line.text for line in lines)
