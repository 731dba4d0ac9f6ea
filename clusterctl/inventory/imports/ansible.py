"""Resolve Ansible inventories: the variables of each host, in Ansible's order of precedence.

The tests compare the result with ``ansible-inventory --list`` of ansible-core.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import PurePosixPath

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports import ansible_ini, ansible_settings, ansible_yaml
from clusterctl.inventory.imports.ansible_tree import Tree, Variable, Variables
from clusterctl.inventory.imports.budget import MOST_HELD, MOST_STEPS, Budget
from clusterctl.inventory.imports.found import FoundNode, ImportedInventory, ImportNote, Source, whole_number
from clusterctl.text.grouping import grouped

_SUFFIXES = ("", ".yml", ".yaml", ".json")
_BUILT_IN = ("all", "ungrouped")
_DEEPEST = 100
"""Maximum nesting of groups; real inventories have three or four levels."""


def read(source: Source) -> ImportedInventory:
    """Read INI or YAML with the group_vars and host_vars of the same directory (``source.beside``)."""
    tree = Tree(Budget(source.name, MOST_HELD))
    tree.group("all", 0)
    if _is_yaml(source):
        ansible_yaml.read(source, tree)
    else:
        ansible_ini.read(source, tree)
    return _Resolver(source, tree).found()


def host_variables(source: Source) -> dict[str, dict[str, Variable]]:
    """Return every host's variables as Ansible merges them; hosts in the order of the file."""
    tree = Tree(Budget(source.name, MOST_HELD))
    tree.group("all", 0)
    (ansible_yaml if _is_yaml(source) else ansible_ini).read(source, tree)
    resolver = _Resolver(source, tree)
    return {name: resolver.variables(name) for name in tree.hosts}


def looks_like_yaml(text: str) -> bool:
    """Return whether the text is a YAML mapping of groups rather than INI."""
    for line in text.splitlines():
        content = line.strip()
        if content and not content.startswith(("#", ";")) and content != "---":
            return content.endswith(":") or content.startswith("{") or ": " in content
    return False


def _is_yaml(source: Source) -> bool:
    return source.name.endswith((".yml", ".yaml", ".json")) or looks_like_yaml(source.text)


class _Resolver:
    def __init__(self, source: Source, tree: Tree) -> None:
        self.source = source
        self.tree = tree
        self.notes: list[ImportNote] = tree.notes
        self.steps = Budget(source.name, MOST_STEPS)
        self.parents: dict[str, list[str]] = {name: [] for name in tree.groups}
        for name, group in tree.groups.items():
            for child in group.children:
                self.parents[child].append(name)
        self.depths: dict[str, int] = {}
        for name in tree.groups:
            self.depth(name, ())
        # Ansible sorts by depth, then ansible_group_priority, then name; later groups take precedence.
        self.order = sorted(tree.groups, key=lambda g: (self.depths[g], self.priority(g), g))
        self.rank = {name: index for index, name in enumerate(self.order)}
        self.within: dict[tuple[str, ...], list[str]] = {}
        self.direct: dict[str, list[str]] = {}
        for name, group in tree.groups.items():
            for host in group.hosts:
                self.direct.setdefault(host, []).append(name)
        self.files: dict[tuple[str, str], Variables] = {}

    def depth(self, name: str, below: tuple[str, ...]) -> int:
        if name == "all":
            return self.depths.setdefault("all", 0)
        if name in below:
            return 0  # circular groups; Ansible rejects them, and found() reports them
        if len(below) > _DEEPEST:
            raise InventoryError(f"{self.source.name}: groups are nested more than {_DEEPEST} levels deep")
        if name not in self.depths:
            parents = [self.depth(parent, (*below, name)) for parent in self.parents[name]]
            self.depths[name] = max(parents, default=0) + 1
        return self.depths[name]

    def priority(self, name: str) -> int:
        variable = self.tree.groups[name].variables.get("ansible_group_priority")
        value = variable.value if variable is not None else 1
        if isinstance(value, int):
            return int(value)
        digits = str(value).removeprefix("-")
        return (-1 if digits != value else 1) * whole_number(digits) if digits.isdecimal() else 1

    def groups_of(self, host: str) -> list[str]:
        """Return a host's groups and their ancestors, those of higher precedence last."""
        direct = tuple(self.direct.get(host, ()))
        if direct not in self.within:
            seen = {"all", *direct, *self.ancestors(direct)}
            self.within[direct] = sorted(seen, key=self.rank.__getitem__)
        return self.within[direct]

    def variables(self, host: str) -> dict[str, Variable]:
        """Return a host's variables; precedence from low to high: groups, group_vars/*, its own, host_vars/*."""
        groups = self.groups_of(host)
        merged: Variables = {}
        layers = [self.tree.groups[group].variables for group in groups]
        layers += [self.beside("group_vars", group) for group in groups]
        layers += [self.tree.host_variables.get(host, {}), self.beside("host_vars", host)]
        for layer in layers:
            self.steps.spend(1 + len(layer))
            merged.update(layer)
        return {name: v for name, v in merged.items() if name != "ansible_group_priority"}

    def beside(self, folder: str, name: str) -> Variables:
        """Return the variables of ``NAME[.yml]`` in group_vars or host_vars, and of files in a directory NAME."""
        if (folder, name) not in self.files:
            found: Variables = {}
            for path in self.paths.get((folder, name), ()):
                found.update(ansible_yaml.variables(self.source.beside[path], path, self.notes))
            self.files[folder, name] = found
        return self.files[folder, name]

    @cached_property
    def paths(self) -> dict[tuple[str, str], list[str]]:
        """Files by ``group_vars`` or ``host_vars`` and name, indexed once because there may be one file per host."""
        found: dict[tuple[str, str], list[str]] = {}
        for path in sorted(self.source.beside):
            parts = PurePosixPath(path).parts
            for folder in ("group_vars", "host_vars"):
                inside = parts[parts.index(folder) + 1 :] if folder in parts else ()
                if not inside or any(part.startswith(".") or part.endswith("~") for part in inside):
                    continue
                if len(inside) > 1:
                    names = {inside[0]} if inside[-1].endswith(_SUFFIXES[1:]) else set()
                else:
                    names = {
                        inside[0].removesuffix(suffix) for suffix in _SUFFIXES if inside[0].endswith(suffix)
                    }
                for name in names:
                    found.setdefault((folder, name), []).append(path)
        return found

    def found(self) -> ImportedInventory:
        # Counted before any variable is merged, because members of a group are members of all its ancestors.
        for host in self.tree.hosts:
            self.tree.held.spend(len(self.groups_of(host)))
        left = ansible_settings.Leftovers()
        nodes = []
        for host, (file, line) in self.tree.hosts.items():
            mapped = ansible_settings.mapped(self.variables(host), left)
            if mapped is None:
                self.notes.append(
                    ImportNote(file, line, f"{host} is not imported: its connection is neither ssh nor local")
                )
                continue
            address, settings = mapped
            nodes.append(FoundNode(host, file, line, address if address != host else None, settings))
        members_of = grouped((name, node.name) for node in nodes for name in self.groups_of(node.name))
        groups = {}
        for name, group in self.tree.groups.items():
            if name in _BUILT_IN:
                continue
            members = tuple(members_of.get(name, ()))
            if members:
                groups[name] = members
            else:
                self.notes.append(
                    ImportNote(
                        self.source.name, group.line, f"the group {name} is not imported: it has no hosts"
                    )
                )
        for name in self.tree.groups:
            if name in self.ancestors((name,)):
                self.notes.append(
                    ImportNote(
                        self.source.name, self.tree.groups[name].line, f"the group {name} contains itself"
                    )
                )
        return ImportedInventory(tuple(nodes), groups, (*self.notes, *left.notes()))

    def ancestors(self, names: Iterable[str]) -> set[str]:
        seen: set[str] = set()
        todo = [parent for name in names for parent in self.parents[name]]
        while todo:
            self.steps.spend(1)
            parent = todo.pop()
            if parent not in seen:
                seen.add(parent)
                todo += self.parents[parent]
        return seen
