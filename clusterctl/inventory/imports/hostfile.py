"""Hostfiles of Open MPI (``host slots=8``) and machinefiles of MPICH (``host:8``)."""

from __future__ import annotations

import re

from clusterctl.inventory.imports.found import (
    FoundNode,
    ImportedInventory,
    ImportNote,
    Setting,
    Source,
    numbered_lines,
    whole_number,
)

_COUNTED = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^:\s]+):(?P<count>[0-9]+)")
_PAIR = re.compile(r"(?<![A-Za-z_-])([A-Za-z_-]+)\s*=\s*([^\s,]*),?")
_SSH_PORTS = (22, 2222)
"""A number behind a colon is a count for MPICH; people write ports there."""
_SLOTS = ("slots", "count", "cpu")
_MAX = ("max_slots", "max-slots", "slots_max", "slots-max")
_USER = ("user", "username")


def looks_like(text: str) -> bool:
    """Return whether a line has a number of slots in the form of one of the two launchers."""
    lines = [raw.split("#", 1)[0].strip() for raw in text.splitlines()]
    return any(re.search(r"\s(slots|slot|max[_-]slots|count)\s*=", line) for line in lines) or any(
        _COUNTED.fullmatch(line.split()[0]) for line in lines if line
    )


def is_mpich(text: str) -> bool:
    """Return whether the numbers of slots follow colons."""
    words = [raw.split("#", 1)[0].split() for raw in text.splitlines()]
    return any(_COUNTED.fullmatch(line[0]) for line in words if line)


def read(source: Source) -> ImportedInventory:
    """Read either format; a host on several lines has the sum of their slots (default 1), as launchers count them.

    Typing errors are not reported here but by ``artifacts.hostfile.lint``.
    """
    nodes: dict[str, FoundNode] = {}
    notes: list[ImportNote] = []
    for number, raw in numbered_lines(source.name, source.text):
        content = raw.split("#", 1)[0].strip()
        if not content:
            continue
        node = _node(content, source.name, number, notes)
        if node is None:
            continue
        before = nodes.get(node.name)
        if before is not None:
            total = int(before.settings.get("slots", 1)) + int(node.settings.get("slots", 1))
            node = FoundNode(
                node.name,
                source.name,
                before.line,
                before.address,
                {**before.settings, **node.settings, "slots": total},
            )
        nodes[node.name] = node
    return ImportedInventory(tuple(nodes.values()), {}, tuple(notes))


def _node(content: str, file: str, line: int, notes: list[ImportNote]) -> FoundNode | None:
    first, *others = content.split(maxsplit=1)
    rest = " ".join(others)
    if first[:1] in "^+":
        notes.append(
            ImportNote(file, line, f"not imported: {first!r} excludes hosts or stands for other hosts")
        )
        return None
    settings: dict[str, Setting] = {}
    user, at, host = first.rpartition("@")
    counted = _COUNTED.fullmatch(host)
    if counted is not None:
        host, count = counted["host"], whole_number(counted["count"])
        if count in _SSH_PORTS or any(key.lower() in _SLOTS for key, _ in _PAIR.findall(rest)):
            said = f"{count} behind {host} is not imported: if it is a port, write `port: {count}` in the inventory"
            notes.append(ImportNote(file, line, said))
        else:
            settings["slots"] = count
    if at:
        settings["user"] = user
    host = host.strip("[]")
    for key, value in _PAIR.findall(rest):
        name = key.lower()
        if name in _SLOTS and value.isdecimal() and whole_number(value):
            settings["slots"] = whole_number(value)
        elif name in _USER and value:
            settings["user"] = value
        elif name in _MAX:
            notes.append(
                ImportNote(
                    file, line, f"{key}={value} is not imported: clusterctl never uses more than the slots"
                )
            )
        elif name not in ("slot", *_SLOTS):
            notes.append(ImportNote(file, line, f"{key}={value} is not imported"))
    bare = _PAIR.sub(" ", rest).split()
    for word in bare[1:]:
        notes.append(ImportNote(file, line, f"the word {word!r} is not imported"))
    # In `ADDRESS NAME slots=N` the launcher connects to the first word; the second one is only for readers.
    if bare:
        return FoundNode(bare[0], file, line, host, settings)
    return FoundNode(host, file, line, None, settings)
