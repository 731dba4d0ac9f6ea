"""Documents as JSON text: what is printed, and what is kept in run folders."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from clusterctl.visible import ACTING


def indented(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON (RFC 8259), indented by one.

    What is not UTF-8, as some file names, and what would act on a terminal (ECMA-48, bidirectional text) is escaped.
    JSON has neither NaN nor Infinity: where the document holds one, the text says null.
    """
    from pydantic_core import PydanticSerializationError, to_json

    try:
        # Python's own json indents ten times as slowly: a second for the facts of a thousand nodes.
        text = to_json(document, indent=1, inf_nan_mode="null")
    except PydanticSerializationError:  # half a surrogate pair
        text = in_ascii(document, indent=1).encode()
    # Facts of a fleet are megabytes of ASCII, which is quick to see.
    if text.isascii() and b"\x7f" not in text:
        return text
    return ACTING.sub(_escaped, text.decode()).encode()


def in_ascii(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON in ASCII; with ``indent`` on several lines. NaN and Infinity become null, as above."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _escaped(found: re.Match[str]) -> str:
    code = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def _finite(value: Any) -> Any:
    """Return the value with None for every float that is not a finite number."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
