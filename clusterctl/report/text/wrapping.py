"""Wrap lines for a terminal; text that programs read is never wrapped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from clusterctl.report.view import NextStep

_COMMAND = re.compile(r"(?<=: )clusterctl .*$|`[^`]*`")
_WHOLE = "\x00"
"""Stands for the blanks of a command while a line is wrapped."""


def wrapped(text: str, width: int | None, indent: int = 4) -> list[str]:
    """Return a text as lines of at most ``width`` columns, the second and later ones indented."""
    if width is None or len(text) <= width:
        return [text]
    return below("", text, indent, width)


def below(start: str, text: str, indent: int, width: int) -> list[str]:
    """Return a text behind ``start`` as lines of at most ``width`` columns, the second and later ones indented."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def wrapped_message(text: str, width: int | None) -> str:
    """Return a message with each line wrapped between words, and indented below its own beginning.

    A command at the end of a line or in backticks stays whole, so that it can be copied.
    """
    if width is None:
        return text
    lines = []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
            continue
        margin = " " * (len(line) - len(line.lstrip(" ")))
        whole = _COMMAND.sub(lambda command: command[0].replace(" ", _WHOLE), line)
        parts = wrapped(whole, width, len(margin) + 4)
        lines += [part.replace(_WHOLE, " ") for part in parts]
    return "\n".join(lines)


def next_lines(steps: Iterable[NextStep], width: int | None = None) -> Iterator[str]:
    """Yield a line per command with its purpose as a shell comment, so that lines can be pasted.

    Commands are never wrapped.
    """
    for step in steps:
        line = f"Next: {step.command}  # {step.why}" if step.why else f"Next: {step.command}"
        if width is None or len(line) <= width or not step.why:
            yield line
            continue
        yield f"Next: {step.command}"
        indent = " " * len("Next: ") + "# "
        yield from textwrap.wrap(
            step.why, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
