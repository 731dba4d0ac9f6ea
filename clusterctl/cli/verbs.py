"""The verbs and where each is: a command line imports and builds the one it names, since all of them take 0.1 s."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

_TALK = re.compile(r"-v+|--verbose|-q|--quiet")
_WITH_A_PROGRAM = (
    "exec",
    *(f"render {kind}" for kind in ("mpirun", "torchrun", "sbatch", "mpijob", "docker-run")),
)
_IN_ORDER = (
    ("check", "check", "check"),
    ("bootstrap", "bootstrap", "bootstrap"),
    ("undo", "undo", "undo"),
    ("up", "up", "up"),
    ("down", "down", "down"),
    ("exec", "exec", "execute"),
    ("bench", "bench", "bench"),
    ("explain", "explain", "explain"),
    ("render", "render", "app"),
    ("results", "results_app", "app"),
    ("image", "image", "app"),
    ("inventory", "inventory", "app"),
    ("lab", "lab", "app"),
)
"""Each verb as help lists it, its module beside this one, and the command or the application there."""


def is_talk(word: str) -> bool:
    """Whether it is one of the options that may stand anywhere, and say nothing about which verb is meant."""
    return _TALK.fullmatch(word) is not None


def named_in(arguments: Sequence[str]) -> str | None:
    """Return the verb that a command line begins with; None where only all of them can tell what is meant."""
    first = next((word for word in arguments if not is_talk(word)), None)
    return first if any(first == name for name, _, _ in _IN_ORDER) else None


def takes_a_program(verb: str) -> bool:
    """Whether the verb takes the words of a program, some of which may look like options."""
    return verb in _WITH_A_PROGRAM


def end_of_own(arguments: Sequence[str]) -> int:
    """Return where ``--`` ends what is said to clusterctl itself: behind it are the words of a program."""
    return arguments.index("--") if "--" in arguments else len(arguments)


def end_of_own_talk(arguments: Sequence[str]) -> int:
    """Return up to where ``-v`` and ``-q`` are surely ours.

    That is ``--``; where a verb takes the words of a program and there is none, the first word behind the verb.
    """
    end = end_of_own(arguments)
    places = [at for at, word in enumerate(arguments) if not is_talk(word)]
    for words in (1, 2):
        verb = " ".join(arguments[at] for at in places[:words])
        if end == len(arguments) and takes_a_program(verb) and len(places) > words:
            return places[words]
    return end


def add_to(application: typer.Typer, verb: str | None) -> None:
    """Give the application one verb, or all of them."""
    for name, module, attribute in _IN_ORDER:
        if verb in (None, name):
            found: Any = getattr(import_module(f"clusterctl.cli.{module}"), attribute)
            if isinstance(found, typer.Typer):
                application.add_typer(found, name=name)
            else:
                application.command(name)(found)
