"""Write pydantic's errors in the words of clusterctl: what was expected, and the value that was given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_LONGEST = 60
_EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("string_type", "string_sub_type"), "text"),
    **dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), "a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), "a mapping"
    ),
}
_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
    "string_too_long": ("max_length", "at most {} characters"),
    "too_long": ("max_length", "at most {} entries"),
    "too_short": ("min_length", "at least {} entries"),
}


def first(error: ValidationError) -> str:
    """Return the first problem of a document, with its place: ``nodes.0.port: expected a whole number, not 'x'``."""
    detail = error.errors(include_url=False)[0]
    place = ".".join(map(str, detail["loc"]))
    return f"{place}: {problem(detail)}" if place else problem(detail)


def problem(detail: ErrorDetails) -> str:
    """Return one problem without its place."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return "this key is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "unknown key"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "json_invalid":
        return f"not valid JSON: {context['error']}"
    wanted = expected(kind, context)
    if wanted is None:
        return f"{shown(detail['input'])} is not a valid value"
    return f"expected {wanted}, not {shown(detail['input'])}"


def expected(kind: str, context: Mapping[str, Any]) -> str | None:
    """Return what an error of this kind expected; None for a kind without a short description."""
    if kind in ("literal_error", "enum"):
        return str(context["expected"])
    if kind == "string_too_short":
        least = context["min_length"]
        return "a text that is not empty" if least == 1 else f"at least {least} characters"
    if kind in _BOUNDS:
        key, form = _BOUNDS[kind]
        bound = context[key]
        return form.format(f"{bound:g}" if isinstance(bound, float) else bound)
    return _EXPECTED.get(kind)


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
