"""Documents as JSON text: what is printed, and what is kept in run folders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from clusterctl.visible import ACTING


def indented(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON (RFC 8259), indented by one.

    What is not UTF-8, as some file names, and what would act on a terminal (ECMA-48, bidirectional text) is escaped.
    """
    from pydantic_core import PydanticSerializationError, to_json

    try:
        # Python's own json indents ten times as slowly: a second for the facts of a thousand nodes.
        text = to_json(document, indent=1)
    except PydanticSerializationError:  # half a surrogate pair
        text = json.dumps(document, indent=1).encode()
    # Facts of a fleet are megabytes of ASCII, which is quick to see.
    if text.isascii() and b"\x7f" not in text:
        return text
    return ACTING.sub(_escaped, text.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    code = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
