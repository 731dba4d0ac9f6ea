"""The terminal: data to stdout, talk to stderr, no colour unless a person is looking.

Much of what is said here was said by nodes first (error texts, names of devices, versions), and a node may be in
hostile hands: characters that a terminal acts on, or that turn the direction of text, are shown and never sent.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from clusterctl.errors import UsageError

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return the text with ``\\x1b`` and the like in place of what a terminal would act on."""
    return _ACTING.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def emit_json(document: Mapping[str, Any]) -> None:
    """Write the verb's one JSON document to stdout."""
    text = json.dumps(document, indent=1, ensure_ascii=not _takes_all(sys.stdout))
    sys.stdout.write(_ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def data(text: str) -> None:
    """Write what was asked for to stdout."""
    _write(sys.stdout, text if text.endswith("\n") else text + "\n")


def talk(text: str) -> None:
    """Say something about the work to stderr."""
    _write(sys.stderr, text + "\n")
    sys.stderr.flush()


def _takes_all(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


def _write(stream: TextIO, text: str) -> None:
    shown = visible(text)
    if not _takes_all(stream):  # an old locale: what it cannot say is escaped, and no reason to end
        shown = shown.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
    stream.write(shown)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return rows as aligned plain text; ``right`` names the columns that align right."""
    cells = [list(headers), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def confirm(question: str) -> bool:
    """Ask a yes/no question on the terminal; raise UsageError when nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError("confirmation is needed, but no terminal is attached", hint="add --yes to go ahead")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
