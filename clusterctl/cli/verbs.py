"""List the commands and their modules; only the command in use is imported, because all of them take 0.1 s."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from clusterctl.cli import either_inventory

_TALK = re.compile(r"-v+|--verbose|-q|--quiet|--color(?:=.*)?")
_WITH_A_PROGRAM = (
    "exec",
    "run",
    "launch",
    *(
        f"render {kind}"
        for kind in ("mpirun", "mpiexec", "torchrun", "srun", "sbatch", "mpijob", "docker-run")
    ),
)
_IN_ORDER = (
    ("check", "check.command", "check"),
    ("bootstrap", "bootstrap.command", "bootstrap"),
    ("undo", "undo.command", "undo"),
    ("run", "run", "run"),
    ("up", "up", "up"),
    ("down", "down", "down"),
    ("exec", "exec", "execute"),
    ("bench", "bench.command", "bench"),
    ("launch", "launch.command", "launch"),
    ("locate", "locate.command", "locate"),
    ("accept", "accept.command", "accept"),
    ("requirements", "requirements", "app"),
    ("explain", "explain", "explain"),
    ("render", "render.app", "app"),
    ("runs", "runs.app", "app"),
    ("image", "image.app", "app"),
    ("inventory", "inventory.app", "app"),
    ("config", "config", "app"),
    ("lab", "lab", "app"),
    ("help", "help.command", "show"),
    ("version", "version", "version"),
    ("completion", "completion.command", "print_script"),
)
"""Each command in the order of the help, its module in this package, and the function or application in it."""


def is_talk(word: str) -> bool:
    """Return whether the word is ``-v``, ``-q`` or ``--color``, which may stand before or after the command."""
    return _TALK.fullmatch(word) is not None


def _talk(arguments: Sequence[str]) -> set[int]:
    """Return the indexes of these options, and of the value that follows ``--color``."""
    places = {at for at, word in enumerate(arguments) if is_talk(word)}
    return places | {at + 1 for at in places if arguments[at] == "--color"}


def named_in(arguments: Sequence[str]) -> str | None:
    """Return the command that a command line begins with; None if the first word is not a command."""
    talk = _talk(arguments)
    first = next((word for at, word in enumerate(arguments) if at not in talk), None)
    return first if any(first == name for name, _, _ in _IN_ORDER) else None


def asks_for_overview(arguments: Sequence[str]) -> bool:
    """Return whether a command line only asks for the help or version of clusterctl; no command is imported then."""
    talk = _talk(arguments)
    return all(word in ("-h", "--help", "--version") for at, word in enumerate(arguments) if at not in talk)


def takes_a_program(verb: str) -> bool:
    """Return whether the command takes the arguments of a program, which may look like options."""
    return verb in _WITH_A_PROGRAM


def end_of_own(arguments: Sequence[str]) -> int:
    """Return the index of ``--``, which ends clusterctl's own arguments; the number of arguments without it."""
    return arguments.index("--") if "--" in arguments else len(arguments)


def talk_in(arguments: Sequence[str]) -> set[int]:
    """Return the indexes of clusterctl's own ``-v``, ``-q`` and ``--color``, with the value of the last.

    They end at ``--``; without it, for a command that takes a program, at the first word after the command.
    """
    end = end_of_own(arguments)
    talk = _talk(arguments)
    places = [at for at in range(len(arguments)) if at not in talk]
    for words in (1, 2):
        verb = " ".join(arguments[at] for at in places[:words])
        if end == len(arguments) and takes_a_program(verb) and len(places) > words:
            end = places[words]
            break
    return {at for at in talk if at < end}


def add_to(application: typer.Typer, verb: str | None) -> None:
    """Add one command to the application; None: all of them, an empty text: none."""
    for name, module, attribute in _IN_ORDER:
        if verb in (None, name):
            found: Any = getattr(import_module(f"clusterctl.cli.{module}"), attribute)
            if isinstance(found, typer.Typer):
                either_inventory.in_application(found)
                application.add_typer(found, name=name)
            elif name in ("run", "launch"):
                from clusterctl.cli.program import ProgramAfterDashes

                application.command(name, cls=ProgramAfterDashes)(found)
            else:
                application.command(name)(either_inventory.accepting_both(found))
