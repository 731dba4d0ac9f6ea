"""Groups files of ClusterShell (``groups.d/local.cfg``): a group and its node set on each line."""

from __future__ import annotations

import re

from clusterctl.inventory import nodeset
from clusterctl.inventory.imports.budget import MOST_HELD, Budget
from clusterctl.inventory.imports.found import (
    FoundNode,
    ImportedInventory,
    ImportNote,
    Source,
    numbered_lines,
    split_outside,
)

ALL = "all"
"""The group that stands for all nodes; it becomes none."""
_LINE = re.compile(r"([A-Za-z0-9_.-]+):[ \t]+([^\s{\"'&|>!*-][^{}\"']*)")
_DEEPEST = 32


def looks_like(text: str) -> bool:
    """Return whether each line is a group with a node set, and one of these has a range or another group."""
    lines = [content for line in text.splitlines() if (content := line.partition("#")[0].rstrip())]
    found = [_LINE.fullmatch(line) for line in lines]
    return all(found) and any(re.search(r"@|\w\[\d", match[2]) for match in found if match)


def read(source: Source) -> ImportedInventory:
    """Read unions of node sets and of other groups of the file; other operators and sources are reported."""
    return _Groups(source).imported()


class _Groups:
    def __init__(self, source: Source) -> None:
        self.file = source.name
        self.notes: dict[ImportNote, None] = {}
        self.lines: dict[str, tuple[int, str]] = {}
        self.budget = Budget(source.name, MOST_HELD)
        self.known: dict[str, tuple[str, ...]] = {}
        for number, line in numbered_lines(source.name, source.text):
            content = line.partition("#")[0].strip()
            group, colon, members = (part.strip() for part in content.partition(":"))
            if not colon and content:
                self.note(number, "not imported: not a group with its nodes")
            elif group in self.lines:
                self.note(number, f"not imported: the group {group} is on line {self.lines[group][0]}, too")
            elif group:
                self.lines[group] = (number, members)

    def note(self, line: int, text: str) -> None:
        self.notes[ImportNote(self.file, line, text)] = None

    def imported(self) -> ImportedInventory:
        groups = {group: self.members(group, ()) for group in self.lines}
        nodes: dict[str, FoundNode] = {}
        for group, members in groups.items():
            for name in members:
                nodes.setdefault(name, FoundNode(name, self.file, self.lines[group][0]))
        kept = {group: members for group, members in groups.items() if group != ALL and members}
        return ImportedInventory(tuple(nodes.values()), kept, tuple(self.notes))

    def members(self, group: str, outer: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes of a group of the file; ``outer`` are the groups that hold it."""
        if group not in self.known:
            line, text = self.lines[group]
            names: dict[str, None] = {}
            for part in split_outside(text.replace(" ", ",")):
                names.update(dict.fromkeys(self.part(part.strip(), line, (*outer, group))))
            self.known[group] = tuple(names)
        self.budget.spend(1 + len(self.known[group]), self.lines[group][0])
        return self.known[group]

    def part(self, part: str, line: int, outer: tuple[str, ...]) -> tuple[str, ...]:
        if part.startswith("@"):
            group = part[1:]
            if group in self.lines and group not in outer and len(outer) < _DEEPEST:
                return self.members(group, outer)
            self.note(line, f"{part} is not imported: it is not another group of this file")
            return ()
        if not part:
            return ()
        try:
            found = nodeset.parse(part)
        except nodeset.NodeSetError as error:
            self.note(line, f"{part} is not imported: {error}")
            return ()
        self.budget.spend(found.size, line)
        return tuple(found.names())
