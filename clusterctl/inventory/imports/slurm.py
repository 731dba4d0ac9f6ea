"""Slurm's nodes: ``sinfo`` tables, ``scontrol show node`` or slurm.conf, and lists of node expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterctl.inventory import nodeset
from clusterctl.inventory.imports.budget import MOST_HELD, Budget
from clusterctl.inventory.imports.found import (
    FoundNode,
    ImportedInventory,
    ImportNote,
    Setting,
    Source,
    numbered_lines,
    split_outside,
    whole_number,
)

_RECORD = re.compile(r"^[^\S\n]*NodeName=", re.IGNORECASE | re.MULTILINE)
_PAIR = re.compile(
    r"(?:^|\s)(NodeName|NodeAddr|Gres|State|Partitions|PartitionName|Nodes)=(\S*)", re.IGNORECASE
)
# Texts of people and of the system. Without quotes they run to the end of their line, or to the key that follows in
# `scontrol -o`. A reason in slurm.conf is one word, and scontrol ends it with who gave it.
_FREE_TEXT = re.compile(
    r"(?:^|\s)(?:(?:Reason|Comment|AdminComment|Extra|OS)=(?:\"[^\"]{0,4000}\"|'[^']{0,4000}')"
    r"|Reason=(?:.{0,4000}\[[^\s\[\]]{1,200}@[^\s\[\]]{1,200}\]|\S*)"
    r"|(?:Comment|AdminComment|Extra|OS)=.*?(?=\sRealMemory=|$))",
    re.IGNORECASE,
)
# The name of a MIG instance, of which several share a GPU: gpu:a100_3g.20gb:4.
_MIG = re.compile(r"gpu:[^:(,]{0,80}\d+g\.\d+gb\b[^,]*", re.IGNORECASE)
_GPUS = re.compile(r"gpu(?::[^:(,]+)?:(\d+)(?:\(.*\))?|gpu(?::[^:(,]*[^:(,0-9][^:(,]*)?(?:\(.*\))?")
_NODE_COLUMNS = ("NODELIST", "HOSTNAMES")
# What sinfo appends to a state: not responding, powered down, in maintenance, and so on (sinfo(1)).
_STATE_MARKS = "*~#!%$@^-+"
_AWAY = ("down", "drain", "drng", "fail", "maint", "power", "inval", "future", "not_responding")


def looks_like(text: str) -> bool:
    """Return whether the text is a table of sinfo or records of scontrol."""
    return _RECORD.search(text) is not None or any(_header(line) for line in text.splitlines()[:5])


def read(source: Source) -> ImportedInventory:
    """Read any of the three formats; GPUs come from Gres, groups from partitions."""
    reader = _Reader(source.name)
    if _RECORD.search(source.text):
        reader.records(source.text)
    else:
        reader.lines(source.text)
    return reader.found()


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.nodes: dict[str, FoundNode] = {}
        self.groups: dict[str, dict[str, None]] = {}
        self.notes: list[ImportNote] = []
        self.away: dict[str, tuple[int, dict[str, None]]] = {}
        self.held = Budget(file, MOST_HELD)

    def found(self) -> ImportedInventory:
        for state, (line, names) in self.away.items():
            self.note(line, f"{nodeset.fold(names)}: imported, although Slurm reports the state {state}")
        groups = {name: tuple(members) for name, members in self.groups.items()}
        return ImportedInventory(tuple(self.nodes.values()), groups, tuple(self.notes))

    def note(self, line: int, text: str) -> None:
        self.notes.append(ImportNote(self.file, line, text))

    def expanded(self, text: str, line: int) -> tuple[str, ...]:
        try:
            names = nodeset.parse(text)
            self.held.spend(names.size, line)
            return tuple(names.names())
        except nodeset.NodeSetError as error:
            self.note(line, f"not imported: {error}")
            return ()

    def add(self, line: int, names: tuple[str, ...], **more: str | None) -> None:
        """Add nodes; a node that exists already (from another partition) keeps its settings."""
        listed = more.get("address")
        addresses = self.expanded(listed, line) if listed else ()
        if addresses and len(addresses) != len(names):
            self.note(line, f"{len(addresses)} addresses for {len(names)} nodes; the names are used instead")
            addresses = ()
        gpus = _gpus(more.get("gres") or "")
        settings: dict[str, Setting] = {} if gpus is None else {"gpus": gpus}
        partitions = [
            partition.strip("*")
            for partition in (more.get("partitions") or "").split(",")
            if partition.strip("*") and partition != "(null)"
        ]
        self.held.spend(len(names) * len(partitions), line)
        for index, name in enumerate(names):
            if name not in self.nodes:
                address = addresses[index] if addresses and addresses[index] != name else None
                self.nodes[name] = FoundNode(name, self.file, line, address, settings)
            for partition in partitions:
                self.groups.setdefault(partition, {})[name] = None
        state = (more.get("state") or "").rstrip(_STATE_MARKS)
        if any(word in state.lower() for word in _AWAY):
            # A table may have one line per node, so all nodes of a state share one note.
            self.away.setdefault(state, (line, {}))[1].update(dict.fromkeys(names))

    def records(self, text: str) -> None:
        defaults: dict[str, str] = {}
        partitions: list[tuple[int, str, str]] = []
        for line, record in _records(self.file, text):
            pairs = {key.lower(): value for key, value in _PAIR.findall(record)}
            if "partitionname" in pairs:
                if pairs["partitionname"].upper() != "DEFAULT" and pairs.get("nodes"):
                    partitions.append((line, pairs["partitionname"], pairs["nodes"]))
                continue
            if pairs.get("nodename", "").upper() == "DEFAULT":
                defaults = pairs
                continue
            pairs = {**defaults, **pairs}
            self.add(
                line,
                self.expanded(pairs["nodename"], line),
                address=pairs.get("nodeaddr"),
                gres=pairs.get("gres"),
                state=pairs.get("state"),
                partitions=pairs.get("partitions"),
            )
        for line, name, members in partitions:
            wanted = tuple(self.nodes) if members.upper() == "ALL" else self.expanded(members, line)
            self.held.spend(len(wanted), line)
            self.groups.setdefault(name, {}).update({m: None for m in wanted if m in self.nodes})

    def lines(self, text: str) -> None:
        header: list[str] | None = None
        separator: str | None = None
        for line, raw in numbered_lines(self.file, text):
            content = raw.split("#", 1)[0].strip()
            if not content or (header is None and re.fullmatch(r"\w{3} \w{3} +\d+ [\d:]{8} \d{4}", content)):
                continue  # sinfo -l begins with the date
            columns = _header(content)
            if columns:
                header, separator = columns, "|" if "|" in content else None
                continue
            if header is None:
                for word in re.split(r"\s+", content):
                    self.add(line, self.expanded(word.strip(","), line))
                continue
            row = _row(header, content.split(separator))
            if row is None:
                self.note(
                    line,
                    f"not imported: {len(content.split(separator))} fields under {len(header)} headings",
                )
                continue
            name = row.get("NODELIST") or row.get("HOSTNAMES") or ""
            address = row.get("NODE_ADDR")
            self.add(
                line,
                self.expanded(name, line),
                address=address if address != name else None,
                gres=row.get("GRES"),
                state=row.get("STATE"),
                partitions=row.get("PARTITION"),
            )


def _header(line: str) -> list[str]:
    """Return the headings of a table if the line has NODELIST or HOSTNAMES, else an empty list."""
    words = [word.strip() for word in line.split("|" if "|" in line else None)]
    return words if any(word in _NODE_COLUMNS for word in words) else []


def _row(header: list[str], fields: list[str]) -> dict[str, str] | None:
    """Pair headings and fields; a reason with spaces is the first (sinfo -R) or last column (sinfo -Nl)."""
    cells = [field.strip() for field in fields]
    over = len(cells) - len(header)
    if over > 0 and header[0] == "REASON":
        cells = [" ".join(cells[: over + 1]), *cells[over + 1 :]]
    elif over > 0 and header[-1] in ("REASON", "FEATURES", "AVAIL_FEATURES", "COMMENT"):
        cells = [*cells[: len(header) - 1], " ".join(cells[len(header) - 1 :])]
    return dict(zip(header, cells, strict=True)) if len(cells) == len(header) else None


def _records(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield every record with its first line; indented lines and lines after a backslash continue a record."""
    begun, parts, continued = 0, "", False
    for number, raw in numbered_lines(name, text):
        line = _FREE_TEXT.sub("", raw.split("#", 1)[0] if raw.lstrip().startswith("#") else raw)
        starts = re.match(r"\s*(NodeName|PartitionName)=", line, re.IGNORECASE) and not continued
        if starts:
            if parts:
                yield begun, parts
            begun, parts = number, line
        elif parts and (continued or line[:1].isspace()):
            parts += " " + line
        continued = line.rstrip().endswith("\\")
        parts = parts.rstrip().removesuffix("\\")
    if parts:
        yield begun, parts


def _gpus(gres: str) -> int | None:
    """Return the sum of GPUs in ``gpu:h100:8(S:0-1),nic:2``; None without an entry for whole GPUs."""
    counts = [
        whole_number(match[1] or "1")
        for part in split_outside(gres, brackets="[]()")
        for match in (None if _MIG.fullmatch(part.strip()) else _GPUS.fullmatch(part.strip()),)
        if match is not None
    ]
    return sum(counts) if counts else None
