"""Write documents as JSON text, for stdout and for run folders."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from clusterctl.text.visible import ACTING


def indented(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON (RFC 8259) in UTF-8, indented by one space.

    Characters that UTF-8 cannot encode (in some file names) and terminal control characters (ECMA-48, bidirectional
    text) are escaped. NaN and Infinity, which JSON lacks, become null.
    """
    from pydantic_core import PydanticSerializationError, to_json

    try:
        # Python's json module is ten times slower when it indents: a second for the facts of a thousand nodes.
        text = to_json(document, indent=1, inf_nan_mode="null")
    except PydanticSerializationError:  # a lone surrogate
        text = in_ascii(document, indent=1).encode()
    # The facts of a fleet are megabytes of ASCII; this test is much faster than the regular expression.
    if text.isascii() and b"\x7f" not in text:
        return text
    return ACTING.sub(_escaped, text.decode()).encode()


def in_ascii(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON in ASCII, on several lines if ``indent`` is set. NaN and Infinity become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _escaped(found: re.Match[str]) -> str:
    code = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def _finite(value: Any) -> Any:
    """Return the value with each float that is not finite replaced by None."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
