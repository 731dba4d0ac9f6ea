"""Find out which line of an inventory file sets each setting of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from clusterctl.inventory import nodeset
from clusterctl.inventory.load import Loaded
from clusterctl.inventory.model import Node
from clusterctl.inventory.problems import KeyPath
from clusterctl.inventory.resolve import written

DEFAULT = "default"
_ENTRY = frozenset({"name", "nodes"})


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """One resolved setting of a node: its path of keys, its value, and its origin (``default``, or place and level)."""

    key: tuple[str, ...]
    value: Any
    origin: str

    @property
    def is_default(self) -> bool:
        return self.origin == DEFAULT


class Provenance:
    """The levels of one inventory file; without a file, every setting is a default or comes from the command line."""

    def __init__(self, loaded: Loaded) -> None:
        self._document, file = loaded.document, loaded.file
        self._entries: dict[str, int] = {}
        self._levels: dict[KeyPath, dict[str, Any]] = {}
        self._known: dict[tuple[int | None, tuple[str, ...]], list[NodeSetting]] = {}
        if file is None:
            return
        self._levels[("defaults",)] = written(file.defaults)
        for group, group_spec in file.groups.items():
            self._levels["groups", group] = written(group_spec)
        for index, spec in enumerate(file.nodes):
            self._levels["nodes", index] = written(spec)
            for name in nodeset.expand(spec.name):
                self._entries[name] = index

    def settings(self, node: Node) -> list[NodeSetting]:
        """Return every setting of a node in the order of the reference."""
        like = (self._entries.get(node.name), node.groups)
        if self._document is None or like not in self._known:
            self._known[like] = self._settings(node)
        # Nodes of one entry and of the same groups differ only in their addresses.
        return [
            replace(one, value=node.address) if one.key == ("address",) else one for one in self._known[like]
        ]

    def _settings(self, node: Node) -> list[NodeSetting]:
        origins = self._origins(node)
        found = []
        for key, value in _leaves(node.model_dump(mode="json", exclude={"name", "groups"}), ()):
            # The content of a file comes from the line that names the file.
            source = (*key[:-1], "source") if key[-1] == "content" and key not in origins else key
            found.append(NodeSetting(key, value, origins.get(source, self._of_no_file(key, node))))
        return found

    def _of_no_file(self, key: tuple[str, ...], node: Node) -> str:
        if self._document is None and key[0] in ("address", "user", "port") and node.connection == "ssh":
            return DEFAULT if getattr(node, key[0]) is None else "command line"
        return DEFAULT

    def _origins(self, node: Node) -> dict[tuple[str, ...], str]:
        if self._document is None:
            return {}
        index = self._entries[node.name]
        levels: list[tuple[KeyPath, str]] = [(("defaults",), "defaults")]
        levels += [(("groups", group), f"group {group}") for group in node.groups]
        levels.append((("nodes", index), "node"))
        origins: dict[tuple[str, ...], str] = {}
        for level, title in levels:
            for key, value in _leaves(self._levels[level], ()):
                if key[0] in _ENTRY:
                    continue
                for lower in [one for one in origins if one[: len(key)] == key]:
                    del origins[lower]
                if value is not None:  # null restores the default
                    origins[key] = f"{self._place((*level, *key))} ({title})"
        if ("address",) not in origins:
            origins["address",] = f"{self._place(('nodes', index, 'name'))} (node)"
        return origins

    def _place(self, path: KeyPath) -> str:
        assert self._document is not None
        return f"{self._document.file}:{self._document.line(path)}"


def _leaves(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and value of each setting; a list is one setting, and so is a map without entries."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key), inner
