"""Generate ``docs/cli.md``: each command with its arguments, options and exit codes.

Run as a module, it prints the page. It reads the functions and their annotations, because the attributes of Typer's
parsed commands differ between releases of Typer.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo, TyperInfo

from clusterctl import errors
from clusterctl.cli import main
from clusterctl.errors import ClusterctlError
from clusterctl.markdown import GENERATED, code, inline, page, paragraph, table

_WORDS: dict[type, str] = {int: "integer", float: "number", str: "text", Path: "path"}


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
    def spelling(self) -> str:
        """Return its name on the command line: ``--limit``, ``-i``, or the name of an argument."""
        if not isinstance(self.info, OptionInfo):
            return code(self.info.metavar or self.name.upper())
        # Typer keeps the first spelling of an annotated option as its default.
        given = [one for one in (self.info.default, *(self.info.param_decls or ())) if isinstance(one, str)]
        given = given or [f"--{self.name.replace('_', '-')}"]
        return ", ".join(code(one) for one in given)

    @property
    def value(self) -> str:
        """Return the kind of value that it takes, in words."""
        if self.is_flag:
            return "flag"
        parts = [code(self.info.metavar)] if self.is_option and self.info.metavar else []
        if isinstance(self.type, type) and issubclass(self.type, Enum):
            parts.append(", ".join(code(member.value) for member in self.type))
        else:
            parts.append(_WORDS[self.type] + _range(self.info))
        several = ", repeatable" if self.is_option else ", several"
        return ": ".join(parts) + (several if self.repeatable else "")

    @property
    def default_words(self) -> str:
        """Return its default; empty if the help text states the default instead."""
        if self.required:
            return "required"
        if self.is_flag or self.default in (None, (), []) or self.info.show_default is False:
            return ""
        if isinstance(self.default, Enum):
            return code(str(self.default.value))
        return code(f"{self.default:g}" if isinstance(self.default, float) else str(self.default))


def _range(info: ArgumentInfo | OptionInfo) -> str:
    if info.min is None and info.max is None:
        return ""
    if info.max is None:
        return f", {info.min:g} or more"
    return f", up to {info.max:g}" if info.min is None else f", {info.min:g} to {info.max:g}"


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


def _usage(path: str, given: list[Parameter]) -> str:
    words = [path]
    if any(parameter.is_option for parameter in given):
        words.append("[OPTIONS]")
    for parameter in given:
        if not parameter.is_option:
            word = parameter.info.metavar or parameter.name.upper()
            word += "..." if parameter.repeatable and not word.endswith("...") else ""
            words.append(word if parameter.required else f"[{word}]")
    return f"```\n{' '.join(words)}\n```"


def _parameter_table(heading: str, given: list[Parameter]) -> Iterator[str]:
    if given:
        columns = (heading, "Value", "Default", "Meaning")
        yield table(
            columns,
            (
                (
                    one.spelling,
                    one.value,
                    one.default_words,
                    inline(one.info.help or ""),
                )
                for one in given
            ),
        )


def _command(path: str, function: Callable[..., Any]) -> Iterator[str]:
    given = list(parameters(function))
    yield f"{'#' * len(path.split())} {path}"
    yield _usage(path, given)
    for text in inspect.cleandoc(function.__doc__ or "").split("\n\n"):
        yield paragraph(inline(text))
    yield from _parameter_table("Argument", [one for one in given if not one.is_option])
    yield from _parameter_table("Option", [one for one in given if one.is_option])


def _name(info: CommandInfo | TyperInfo) -> str:
    if isinstance(info.name, str):
        return info.name
    assert isinstance(info, CommandInfo) and info.callback is not None
    return str(info.callback.__name__).replace("_", "-")


def _application(path: str, app: typer.Typer) -> Iterator[str]:
    """Yield the blocks of an application's commands and of its nested applications, in order."""
    for command in app.registered_commands:
        if not command.hidden and command.callback is not None:
            yield from _command(f"{path} {_name(command)}", command.callback)
    for group in app.registered_groups:
        inner = group.typer_instance
        if not group.hidden and inner is not None:
            below = f"{path} {_name(group)}"
            yield f"{'#' * len(below.split())} {below}"
            yield paragraph(inline(inner.info.help or ""))
            yield from _application(below, inner)


def _exit_codes() -> Iterator[tuple[str, str]]:
    yield code("0"), "The command succeeded."
    yield code("1"), "The command ran and found a problem; each command lists which."
    # Subclasses in other modules are special cases of these, and which of them exist depends on the imports.
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and one is not ClusterctlError]
    for kind in sorted(
        (one for one in kinds if issubclass(one, ClusterctlError)), key=lambda one: one.exit_code
    ):
        yield code(str(kind.exit_code)), inline((kind.__doc__ or "").split("\n\n")[0])
    yield code(str(main.INTERRUPTED)), "The command was interrupted (Ctrl-C)."
    yield code(str(main.READER_GONE)), "The reader of standard output closed it, as `head` does."


def text() -> str:
    """Return the content of ``docs/cli.md``."""
    return page(
        (
            "# Command line",
            GENERATED.format(source="the functions in clusterctl/cli/"),
            paragraph(
                "`-h` or `--help` after any command prints its help. The options of the first table may stand "
                "before or after the command. [Settings](settings.md) lists defaults that the environment and "
                "`config.yaml` can change."
            ),
            *_parameter_table("Option", list(parameters(main.options))),
            "## Exit codes",
            table(("Code", "Meaning"), _exit_codes()),
            *_application("clusterctl", main.application()),
        )
    )


if __name__ == "__main__":
    sys.stdout.write(text())
