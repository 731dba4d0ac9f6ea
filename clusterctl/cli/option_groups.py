"""Let a command take its options in groups: frozen dataclasses whose fields are options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command as Typer reads it: each parameter that is a dataclass becomes one option per field.

    Options keep the order of parameters and fields. The command gets the dataclasses.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    flat: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name not in groups:
            flat.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))
            continue
        kinds = get_type_hints(groups[parameter.name], include_extras=True)
        for field in fields(groups[parameter.name]):
            default = Parameter.empty if field.default is MISSING else field.default
            flat.append(
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kinds[field.name])
            )

    def called(**given: Any) -> None:
        made: dict[str, Any] = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})  # type: ignore[operator]
            for name, kind in groups.items()
        }
        command(**made, **given)

    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__annotations__ = {one.name: one.annotation for one in flat}
    called.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    return called
