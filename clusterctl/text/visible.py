"""Escape terminal control characters and invisible characters.

Much of the output quotes text of nodes (errors, device names, versions), and a node may be hostile. Characters that
move the cursor, reverse the direction of text, or are invisible appear as escapes in every format.
"""

from __future__ import annotations

import re
from typing import Any

LINE_CHARACTERS = 1000
_CLASS = (
    # C0 except tab and line feed, DEL, C1.
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Marks, embeddings, overrides and isolates of the bidirectional algorithm; line and paragraph separators.
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    # Zero width: a text looks the same with and without them. Tags; interlinear annotations.
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    # Characters that UTF-8 or XML 1.0 cannot hold.
    "\ud800-\udfff\ufffe\uffff"
)
ACTING = re.compile(f"[{_CLASS}]")
ACTING_IN_A_LINE = re.compile(f"[\t\n{_CLASS}]")
"""The same characters, and tab and line feed, for texts of one line."""

_BREAKS = re.compile("[\t-\r\x1c-\x1e\x85\u2028\u2029]")
"""Where a terminal or ``splitlines`` begins another line or column."""


def visible(text: str) -> str:
    r"""Return the text with the characters of ``ACTING`` as escapes such as ``\x1b``."""
    return ACTING.sub(lambda found: _escaped(found[0]), text)


def one_line(text: str, most: int) -> str:
    """Return at most ``most`` visible characters of the text, in one line."""
    return visible(_BREAKS.sub(" ", text[:most]))[:most]


def one_line_texts(value: Any) -> Any:
    """Return a value of JSON whose texts and keys are one visible line each, at most LINE_CHARACTERS long."""
    if isinstance(value, str):
        return one_line(value, LINE_CHARACTERS)
    if isinstance(value, list):
        return [one_line_texts(one) for one in value]
    if isinstance(value, dict):
        return {one_line_texts(name): one_line_texts(one) for name, one in value.items()}
    return value


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
