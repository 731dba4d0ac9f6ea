"""Let each command that takes an inventory accept it as its first argument and as ``-i``."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from clusterctl.cli.options import InventoryArgument, InventoryOption
from clusterctl.errors import UsageError
from clusterctl.inventory.user_paths import is_file
from clusterctl.text import typed_inventory

_NAME, _TWIN = "inventory", "inventory_option"
_YAML = (".yaml", ".yml")


def in_application(application: typer.Typer) -> None:
    """Let all commands of an application accept both forms."""
    for command in application.registered_commands:
        if command.callback is not None:
            command.callback = accepting_both(command.callback)
    for group in application.registered_groups:
        if group.typer_instance is not None:
            in_application(group.typer_instance)


def accepting_both(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with INVENTORY and ``-i``; unchanged without a parameter ``inventory``.

    A command with an argument of its own (a program, an image) declares ``-i`` only. Its first argument is the
    inventory if it is a YAML file.
    """
    given = signature(command).parameters
    if _NAME not in given or getattr(command, "accepts_both", False):
        return command
    hints = get_type_hints(command, include_extras=True)
    own = next((name for name, hint in hints.items() if name != _NAME and _is_argument(hint)), None)
    flat: list[Parameter] = []
    for name, parameter in given.items():
        hint = InventoryArgument if name == _NAME and own is None else hints[name]
        flat.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
        if name == _NAME and own is None:
            flat.append(Parameter(_TWIN, Parameter.KEYWORD_ONLY, default=None, annotation=InventoryOption))

    def called(**values: Any) -> None:
        if own is None:
            argument, option = values.pop(_NAME), values.pop(_TWIN)
        else:
            option = values.pop(_NAME)
            argument, values[own] = _taken_from(values[own])
        chosen = one(argument, option)
        with typed_inventory.named(chosen):
            command(**{_NAME: chosen}, **values)

    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__annotations__ = {one.name: one.annotation for one in flat}
    called.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    called.accepts_both = True  # type: ignore[attr-defined]
    return called


def _is_argument(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(one, ArgumentInfo) for one in get_args(hint))


def _taken_from(words: Any) -> tuple[Path | None, Any]:
    """Return the inventory at the start of a command's own argument, and the rest of the argument."""
    first = words[0] if isinstance(words, list) and words else words
    if not (isinstance(first, str) and first.endswith(_YAML) and is_file(first)):
        return None, words
    return Path(first), words[1:] if isinstance(words, list) else None


def one(argument: Path | None, option: Path | None) -> Path | None:
    """Return the inventory that was given in either form; raise UsageError for both."""
    if argument is not None and option is not None:
        raise UsageError(
            f"two inventories were given: {argument}, and {option} with -i", hint="give only one of them"
        )
    return argument if option is None else option
