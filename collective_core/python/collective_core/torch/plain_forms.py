"""torch's short forms of a group's calls: a tensor for a list of one, and values for an object of options."""

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
    """Let a method that takes tensors and an object of `options` be called in torch's short form, too.

    `depths` has a number for each argument with tensors: 1 for a list of tensors, 2 for a list of lists, 0 for what is
    passed on as it is. The short form has `values` ("root", "op") and a timeout after them, by position or by name.
    Tensors can be given by the method's names for them, too.
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
    """Return the options that were given, or new ones with the values of the short form."""
    found = named.pop("opts", None)
    if given and type(given[0]) is make:
        found, given = given[0], given[1:]
    if found is None:
        found = make()
    allowed = (*values, "timeout")
    if len(given) > len(allowed) or not named.keys() <= set(allowed):
        raise TypeError(f"after the tensors, expected {', '.join(allowed)}, or an object of options")
    for name, value in (*zip(allowed, given, strict=False), *named.items()):
        if value is not None:
            setattr(found, _FIELDS.get(name, name), value)
    return found


def _nested(value: Any, depth: int) -> Any:
    """Return tensors in lists of lists as deep as a method takes them; an empty list stays as it is."""
    own, inner = 0, value
    while isinstance(inner, list | tuple):
        if not inner:
            return value
        own, inner = own + 1, inner[0]
    for _ in range(depth - own):
        value = [value]
    return value
