"""Describe the commands of the command line: their arguments, options and texts, for help, completion and docs/cli.md.

The functions and their annotations are read, because the attributes of Typer's parsed commands differ between releases
of Typer.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo, TyperInfo

_METAVARS: dict[type, str] = {int: "N", float: "N", str: "TEXT", Path: "PATH"}
_EXIT_CODES = re.compile(r"^Exit code (?=\d+: )")
_NEXT_CODE = re.compile(r"; (?=\d+: )")


@dataclass(frozen=True)
class Parameter:
    """Describe one argument or option of a command, as its annotation gives it."""

    name: str
    type: Any
    """The Python type without Optional and list."""
    info: ArgumentInfo | OptionInfo
    default: Any
    repeatable: bool

    @property
    def is_option(self) -> bool:
        return isinstance(self.info, OptionInfo)

    @property
    def is_flag(self) -> bool:
        return self.type is bool or bool(getattr(self.info, "count", False))

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the names of an option on the command line: ``--limit``, ``-i``, ``--ib/--no-ib``."""
        assert isinstance(self.info, OptionInfo)
        # Typer keeps the first spelling of an annotated option as its default.
        given = [one for one in (self.info.default, *(self.info.param_decls or ())) if isinstance(one, str)]
        long = f"--{self.name.replace('_', '-')}"
        if not given and self.type is bool:  # Typer adds the negative form itself
            return (f"{long}/--no-{long[2:]}",)
        return tuple(given) or (long,)

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the values that it accepts, if its type lists them."""
        if isinstance(self.type, type) and issubclass(self.type, Enum):
            return tuple(str(member.value) for member in self.type)
        return ()

    @property
    def metavar(self) -> str:
        """Return the word for its value; empty for a flag."""
        if self.is_flag:
            return ""
        if self.info.metavar:
            return self.info.metavar
        if not self.is_option:
            return self.name.upper()
        return "|".join(self.choices) or _METAVARS[self.type]

    @property
    def shown_default(self) -> str:
        """Return its default; empty if it has none, or if the help text states the default instead."""
        if isinstance(self.info.show_default, str):
            return self.info.show_default
        empty = self.required or self.default in (None, (), []) or self.info.show_default is False
        if empty or getattr(self.info, "count", False):
            return ""
        if self.is_flag:
            positive, slash, negative = self.spellings[0].partition("/")
            return (positive if self.default else negative) if slash else ""
        if isinstance(self.default, Enum):
            return str(self.default.value)
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def range(self) -> str:
        """Return the range of its numbers in words; empty without one."""
        least, most = self.info.min, self.info.max
        if least is None and most is None:
            return ""
        if most is None:
            return f"{least:g} or more"
        return f"up to {most:g}" if least is None else f"{least:g} to {most:g}"


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Yield the arguments and options of a command's function, in order, without hidden ones."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if get_origin(hints[name]) is not Annotated:
            continue
        kind, *extras = get_args(hints[name])
        (info,) = (extra for extra in extras if isinstance(extra, ArgumentInfo | OptionInfo))
        if get_origin(kind) in (Union, UnionType):
            (kind,) = (one for one in get_args(kind) if one is not type(None))
        repeatable = get_origin(kind) in (list, tuple)
        if repeatable:
            kind = get_args(kind)[0]
        if not info.hidden:
            yield Parameter(name, kind, info, parameter.default, repeatable)


@dataclass(frozen=True)
class CommandDescription:
    """Describe one command: a function, or an application with further commands."""

    path: str
    """Its words on the command line, such as ``clusterctl runs list``."""
    function: Callable[..., Any] | None
    application: typer.Typer | None = None

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """Return its text; the first paragraph is its summary."""
        source = self.function.__doc__ if self.application is None else self.application.info.help
        text = inspect.cleandoc(source or "")
        return tuple(" ".join(part.split()) for part in text.split("\n\n"))

    @property
    def summary(self) -> str:
        return self.paragraphs[0]

    @property
    def exit_codes(self) -> tuple[tuple[str, str], ...]:
        """Return the exit codes with their meanings, from the paragraph that begins with ``Exit code N: ``."""
        for text in self.paragraphs:
            found = _EXIT_CODES.match(text)
            if found:
                codes = (part.split(": ", 1) for part in _NEXT_CODE.split(text[found.end() :].rstrip(".")))
                return tuple((code, meaning) for code, meaning in codes)
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the paragraphs after the summary, without the exit codes."""
        return tuple(text for text in self.paragraphs[1:] if not _EXIT_CODES.match(text))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return () if self.function is None else tuple(parameters(self.function))

    @property
    def usage(self) -> str:
        """Return its synopsis: ``clusterctl check [OPTIONS] [INVENTORY]``."""
        given = self.parameters
        words = [self.path]
        if any(parameter.is_option for parameter in given):
            words.append("[OPTIONS]")
        for parameter in given:
            if not parameter.is_option:
                word = parameter.metavar
                word += "..." if parameter.repeatable and not word.endswith("...") else ""
                words.append(word if parameter.required else f"[{word}]")
        return " ".join([*words, "COMMAND ..."] if self.application is not None else words)

    @property
    def commands(self) -> Mapping[str, CommandDescription]:
        """Return the commands below it, by name, in order, without hidden ones."""
        if self.application is None:
            return {}
        found: dict[str, CommandDescription] = {}
        for command in self.application.registered_commands:
            if not command.hidden and command.callback is not None:
                name = _name(command)
                found[name] = CommandDescription(f"{self.path} {name}", command.callback)
        for group in self.application.registered_groups:
            if not group.hidden and group.typer_instance is not None:
                name = _name(group)
                found[name] = CommandDescription(f"{self.path} {name}", None, group.typer_instance)
        return found

    def below(self, words: list[str]) -> CommandDescription | None:
        """Return the command that the words name below this one, or None."""
        if not words:
            return self
        found = self.commands.get(words[0])
        return None if found is None else found.below(words[1:])


def _name(info: CommandInfo | TyperInfo) -> str:
    if isinstance(info.name, str):
        return info.name
    assert isinstance(info, CommandInfo) and info.callback is not None
    return str(info.callback.__name__).replace("_", "-")


def described(application: typer.Typer) -> CommandDescription:
    """Return the description of the whole command line."""
    (options,) = (
        info.callback for info in (application.registered_callback,) if info is not None and info.callback
    )
    return CommandDescription("clusterctl", options, application)
