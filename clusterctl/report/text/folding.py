"""Group the texts of many nodes, so that nodes with the same text share a line; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterctl.inventory import nodeset

NAMES_CHARACTERS = 44
NAME = "\0"
# Parts that differ between nodes in the same state: numbers, addresses, quoted names, device names.
_OWN = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\b[A-Za-z_.-]*\d[\w.:/+-]*")
# Stands for a node's name, because a pattern of each name would take milliseconds to compile.
_HERE = "\x01"
_NAMED = re.compile(rf"(?<![\w.{_HERE}-]){_HERE}(?![\w{_HERE}-]|\.[\w{_HERE}])")
_WITH_ADDRESS = re.compile(rf"{_NAMED.pattern}(?: \([^()\n]*\))?")
_AGAIN = re.compile(rf"{_WITH_ADDRESS.pattern}: ")


def named(names: Sequence[str], limit: int = NAMES_CHARACTERS) -> str:
    """Return node names folded, cut at a limit, with their number when there are several."""
    text = nodeset.fold(names)
    if len(text) > limit:
        text = text[: limit - 3].rstrip(",-") + "..."
    return f"{text} ({len(names)})" if len(names) > 1 else text


def shape(text: str) -> str:
    """Return the text without the parts that differ between nodes in the same state."""
    return _OWN.sub("#", text)


def without_name(text: str, node: str) -> str:
    """Return a node's text with ``NAME`` instead of its name, and without the address in parentheses after it."""
    if node not in text:
        return text
    marked = text.replace(_HERE, "\ufffd").replace(node, _HERE)
    head, found, rest = _WITH_ADDRESS.sub(NAME, marked, count=1).partition(NAME)
    # Messages of transports begin with the name, which the words before them may have said already.
    rest = _AGAIN.sub("", rest)
    return (head + found + _NAMED.sub(NAME, rest)).replace(_HERE, node)


class Kinds:
    """Group nodes' texts by shape: the first text of a group represents all of them."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], tuple[str, list[str], bool]] = {}

    def add(self, key: tuple[str, ...], text: str, node: str, *, like: str | None = None) -> None:
        """Add a node's text; ``like`` is the part that decides the group (None: the whole text)."""
        kind = (*key, shape(text if like is None else like))
        first, nodes, differs = self.found.get(kind, (text, [], False))
        nodes.append(node)
        self.found[kind] = (first, nodes, differs or text != first)

    @staticmethod
    def said(text: str, differs: bool) -> str:
        return f"{text} [others differ in names or numbers]" if differs else text
