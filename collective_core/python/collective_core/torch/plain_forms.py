"""torch's short forms of a group's calls: a tensor instead of a list, and values instead of an object of options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

# By the argument of the short form, the attribute of the options.
_FIELDS = {"root": "rootRank", "op": "reduceOp"}


def with_plain_form(
    options: Callable[[], Any], depths: Sequence[int], *values: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for methods that take tensors and an object of `options`: accept torch's short form too.

    `depths` has a number for each argument with tensors: 1 for a list of tensors, 2 for a list of lists, 0 for an
    argument that is passed on unchanged. In the short form, `values` ("root", "op") and a timeout follow the tensors,
    by position or by name. Tensors may also be given by the names of the method's parameters. The method raises
    TypeError for other arguments.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        full = len(depths) + 1
        names = tuple(inspect.signature(method).parameters)[1:full]
        begins_with_list = any(depths[:1])

        @functools.wraps(method)
        def either(self: Any, *given: Any, **named: Any) -> Any:
            in_lists = not begins_with_list or (bool(given) and type(given[0]) is list)
            if in_lists and len(given) == full and type(given[-1]) is options:
                return method(self, *given)
            by_name = [named.pop(name) for name in names[len(given) :] if name in named]
            tensors = [_nested(one, depth) for one, depth in zip((*given, *by_name), depths, strict=False)]
            return method(self, *tensors, _options(options, values, given[len(depths) :], named))

        return either

    return decorate


def _options(
    make: Callable[[], Any], values: Sequence[str], given: Sequence[Any], named: dict[str, Any]
) -> Any:
    """Return the given options, or new ones, with the values of the short form set."""
    found = named.pop("opts", None)
    if given and type(given[0]) is make:
        found, given = given[0], given[1:]
    if found is None:
        found = make()
    allowed = (*values, "timeout")
    if len(given) > len(allowed) or not named.keys() <= set(allowed):
        wrong = [*map(repr, given), *(f"{name}={value!r}" for name, value in named.items())]
        raise TypeError(
            f"after the tensors, expected {', '.join(allowed)}, or an object of options, not {', '.join(wrong)}"
        )
    for name, value in (*zip(allowed, given, strict=False), *named.items()):
        if value is not None:
            setattr(found, _FIELDS.get(name, name), value)
    return found


def _nested(value: Any, depth: int) -> Any:
    """Return a value nested in lists to the given depth; return an empty list unchanged."""
    own, inner = 0, value
    while isinstance(inner, list | tuple):
        if not inner:
            return value
        own, inner = own + 1, inner[0]
    for _ in range(depth - own):
        value = [value]
    return value
