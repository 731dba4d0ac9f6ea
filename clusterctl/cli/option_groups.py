"""Let a command take its options in groups: frozen dataclasses whose fields are options.

An option says itself which modes of its command exclude it: ``Annotated[..., typer.Option(...), NotWith("--smoke")]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar, Protocol, get_type_hints

from typer.models import OptionInfo

from clusterctl.cli.options import require_alone


class OptionGroup(Protocol):
    """Any dataclass, as typeshed describes one."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class NotWith:
    """Name the modes of a command, by their flags, that an option cannot be combined with."""

    def __init__(self, *modes: str) -> None:
        self.modes = frozenset(modes)


@dataclass(frozen=True, slots=True)
class Mode:
    """Hold a flag that makes a command do something else, what that is, and the options that it allows, for people."""

    flag: str
    does: str
    allows: str = ""

    def refuse_excluded(self, *groups: OptionGroup) -> None:
        """Raise UsageError if an option that this mode excludes was given; nothing if the mode itself was not."""
        chosen = [one for group in groups for one in _given(group)]
        flags = [flag for flag, excluding in chosen if self.flag in excluding]
        if any(flag == self.flag for flag, _ in chosen):
            require_alone(self.flag, self.does, dict.fromkeys(flags, True), self.allows)


def given(*groups: OptionGroup) -> list[str]:
    """Return the flags of the options that differ from their defaults, in the order of the fields."""
    return [flag for group in groups for flag, _ in _given(group)]


def _given(group: OptionGroup) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the flag of each option that differs from its default, and the modes that exclude it."""
    hints = get_type_hints(type(group), include_extras=True)
    for field in fields(group):
        metadata = hints[field.name].__metadata__
        # In an Annotated, the first name is where the default would be (typer.utils.get_params_from_function).
        options = [one for one in metadata if isinstance(one, OptionInfo)]
        names = [name for one in options for name in (one.default, *(one.param_decls or ()))]
        long = [name for name in names if isinstance(name, str) and name.startswith("--")]
        if long and getattr(group, field.name) != field.default:
            modes = [one.modes for one in metadata if isinstance(one, NotWith)]
            yield long[-1], frozenset().union(*modes)


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
