"""The unresolved content of an Ansible inventory: groups, hosts and variables, with their lines."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from typing import Any

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports.budget import Budget
from clusterctl.inventory.imports.found import ImportNote, whole_number
from clusterctl.inventory.nodeset import MAX_NODES

_RANGE = re.compile(r"\[(?P<first>[0-9]*|[A-Za-z]):(?P<last>[0-9]+|[A-Za-z])(?::(?P<step>[0-9]+))?\]")
_PORT = re.compile(r"(?P<host>.+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable's value as parsed from YAML or INI; ``vault``: the value is encrypted."""

    value: Any
    file: str
    line: int
    vault: bool = False


Variables = dict[str, Variable]


@dataclass(slots=True)
class Group:
    """A group: hosts and child groups by name, in the order written."""

    line: int
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    variables: Variables = field(default_factory=dict)


@dataclass(slots=True)
class Tree:
    """The content of one or several files; ``held`` bounds its size."""

    held: Budget
    groups: dict[str, Group] = field(default_factory=dict)
    hosts: dict[str, tuple[str, int]] = field(default_factory=dict)
    host_variables: dict[str, Variables] = field(default_factory=dict)
    notes: list[ImportNote] = field(default_factory=list)

    def group(self, name: str, line: int) -> Group:
        """Return a group; create it on first use."""
        return self.groups.setdefault(name, Group(line))

    def add_hosts(
        self, group: Group | None, pattern: str, variables: Variables, file: str, line: int
    ) -> None:
        """Add the hosts of a pattern to a group, with variables that override those of earlier lines (as Ansible)."""
        names, port = hosts_of(pattern)
        self.held.spend(len(names) * (2 + len(variables)), line)
        for name in names:
            is_new = name not in self.hosts
            self.hosts.setdefault(name, (file, line))
            own = self.host_variables.setdefault(name, {})
            # Ansible reads a port behind a name where it meets the host for the first time.
            if port is not None and is_new:
                own["ansible_port"] = Variable(port, file, line)
            own.update(variables)
            if group is not None:
                group.hosts[name] = None
        if len(self.hosts) > MAX_NODES:
            raise InventoryError(f"{file}:{line}: more than {MAX_NODES} hosts", hint="import a part of it")


def hosts_of(pattern: str) -> tuple[list[str], int | None]:
    """Expand a pattern such as ``web[01:10:2].example.org:2222`` to its names and its port.

    Raise ValueError for a range that Ansible would reject too.
    """
    port = None
    match = _PORT.fullmatch(pattern)
    if match is not None and ":" not in re.sub(r"\[[^\[\]]*\]", "", match["host"]):
        pattern, port = match["host"], int(match["port"])
        if pattern.startswith("[") and pattern.endswith("]") and not _RANGE.fullmatch(pattern):
            return [pattern[1:-1]], port
    return _expanded(pattern), port


def _expanded(pattern: str) -> list[str]:
    names = [""]
    rest = pattern
    while True:
        match = _RANGE.search(rest)
        if match is None:
            return [name + rest for name in names]
        items = _items(match, pattern)
        if len(names) * len(items) > MAX_NODES:
            raise ValueError(f"{pattern!r} has more than {MAX_NODES} hosts")
        before = rest[: match.start()]
        names = [name + before + item for name in names for item in items]
        rest = rest[match.end() :]


def _items(match: re.Match[str], pattern: str) -> list[str]:
    first, last, step = match["first"] or "0", match["last"], whole_number(match["step"] or "1")
    if step == 0:
        raise ValueError(f"{pattern!r} has a range with a step of 0")
    if first.isdigit() and last.isdigit():
        if len(first) > 9 or len(last) > 9 or int(last) - int(first) > MAX_NODES:
            raise ValueError(f"{pattern!r} has more than {MAX_NODES} hosts")
        width = len(first) if len(first) > 1 and first.startswith("0") else 0
        if width and len(last) != width:
            raise ValueError(f"{pattern!r}: the ends of a zero-padded range must have the same width")
        items = [f"{number:0{width}d}" for number in range(int(first), int(last) + 1, step)]
    elif first.isalpha() and last.isalpha():
        letters = string.ascii_letters
        items = list(letters[letters.index(first) : letters.index(last) + 1 : step])
    else:
        raise ValueError(f"{pattern!r} mixes letters and numbers in a range")
    if not items:
        raise ValueError(f"{pattern!r} has a range that runs backwards")
    return items
