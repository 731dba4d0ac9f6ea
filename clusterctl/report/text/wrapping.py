"""Wrap lines for a terminal; text that programs read is never wrapped."""

from __future__ import annotations

import textwrap


def wrapped(text: str, width: int | None, indent: int = 4) -> list[str]:
    """Return a text as lines of at most ``width`` columns, the second and later ones indented."""
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
