"""Characters that a terminal or a reader's eye acts on, made visible.

Nodes wrote much of what is shown (error texts, names of devices, versions), and a node may be in hostile hands: what
moves a cursor, turns the direction of text, or is invisible is shown as an escape in every format.
"""

from __future__ import annotations

import re

_CLASS = (
    # C0 but for tabs and line feeds, DEL, C1.
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Marks, embeddings, overrides and isolates of the bidirectional algorithm; line and paragraph separators.
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    # Without width: two texts with and without them look the same. Tags; interlinear annotations.
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    # What UTF-8 or XML 1.0 cannot hold.
    "\ud800-\udfff\ufffe\uffff"
)
ACTING = re.compile(f"[{_CLASS}]")
ACTING_IN_A_LINE = re.compile(f"[\t\n{_CLASS}]")
"""The same, with tabs and line feeds, for texts of one line."""


def visible(text: str) -> str:
    r"""Return the text with ``\x1b`` and the like instead of the characters that act."""
    return ACTING.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
