"""The terminal: data to stdout, talk to stderr, no colour unless a person is looking."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from clusterctl.errors import UsageError


def emit_json(document: Mapping[str, Any]) -> None:
    """Write the verb's one JSON document to stdout."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def data(text: str) -> None:
    """Write what was asked for to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def talk(text: str) -> None:
    """Say something about the work to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


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
