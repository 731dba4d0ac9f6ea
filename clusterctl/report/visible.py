"""Text of unknown origin made harmless to look at.

Much of what is shown was said by nodes first (error texts, names of devices, versions), and a node may be in hostile
hands: characters that a terminal acts on, or that turn the direction of text, are shown and never passed on.
"""

from __future__ import annotations

import re

ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return the text with ``\\x1b`` and the like in place of what a terminal would act on."""
    return ACTING.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
