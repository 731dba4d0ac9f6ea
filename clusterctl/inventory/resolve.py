"""From the file as written to nodes: ranges expanded, settings of node over groups over defaults merged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from clusterctl.inventory import nodeset, shapes
from clusterctl.inventory.field_types import Address, NodeName, address_problem, canonical_address
from clusterctl.inventory.model import Inventory, InventoryFile, Node, NodeSettings, NodeSpec
from clusterctl.inventory.problems import KeyPath, Problem, refusal
from clusterctl.inventory.user_paths import at_home, is_file, is_there
from clusterctl.inventory.yaml_source import Document

_NAME: TypeAdapter[str] = TypeAdapter(NodeName)
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)
_OWN_KEYS = frozenset({"name", "address", "nodes"})
_PATHS = (
    ("peermem", "source", "directory or tarball"),
    ("packages", "folder", "folder"),
    ("cluster_file", "source", "file"),
)
"""Settings of requirements that name something on this machine: requirement, key, what must be there."""


def resolve(file: InventoryFile, document: Document, folder: Path) -> Inventory:
    """Return the inventory with every node's settings; ``folder`` is where relative paths start.

    Raise InventoryError with every problem: names, addresses, groups and files.
    """
    resolver = _Resolver(file, document, folder)
    nodes = resolver.nodes()
    if resolver.problems:
        raise refusal(document.file, resolver.problems)
    return Inventory(nodes=nodes, launcher=file.launcher, source=document.file)


def merged(layers: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge settings key by key, later layers over earlier; lists are replaced, mappings merged in depth."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, Mapping):
                result[key] = merged([below, value])
            else:
                result[key] = merged([value]) if isinstance(value, Mapping) else value
    return result


def written(settings: BaseModel) -> dict[str, Any]:
    """Return only what was set in the file, in depth: a default never beats what a lower layer says."""
    return settings.model_dump(exclude_unset=True)


class _Resolver:
    """One pass over the file; problems are collected, not raised."""

    def __init__(self, file: InventoryFile, document: Document, folder: Path) -> None:
        self.file = file
        self.document = document
        self.folder = folder
        self.problems: list[Problem] = []

    def problem(self, path: KeyPath, message: str) -> None:
        self.problems.append(self.document.problem(path, message))

    def nodes(self) -> tuple[Node, ...]:
        places: dict[str, KeyPath] = {}
        spread: list[tuple[int, NodeSpec, str, str]] = []
        for index, spec in enumerate(self.file.nodes):
            path: KeyPath = ("nodes", index)
            for name, address in self.names_and_addresses(spec, path):
                if name in places:
                    line = self.document.line(places[name])
                    self.problem(
                        (*path, "name"), f"the node {name} is given twice; it stands on line {line} already"
                    )
                    continue
                places[name] = (*path, "name")
                spread.append((index, spec, name, address))
        if len(spread) > nodeset.MAX_NODES:
            self.problem(("nodes",), f"{len(spread)} nodes; at most {nodeset.MAX_NODES} are accepted")
            return ()
        groups = self.groups(set(places))
        self.check_files()
        if self.problems:
            return ()
        nodes: list[Node] = []
        resolved: dict[tuple[int, tuple[str, ...]], Node] = {}
        for index, spec, name, address in spread:
            inside = tuple(group for group, members in groups.items() if name in members)
            if (index, inside) not in resolved:
                resolved[index, inside] = self.node(spec, name, address, inside)
            nodes.append(resolved[index, inside].model_copy(update={"name": name, "address": address}))
        self.check_addresses(nodes, spread)
        return tuple(nodes)

    def names_and_addresses(self, spec: NodeSpec, path: KeyPath) -> list[tuple[str, str]]:
        names = self.expanded(spec.name, (*path, "name"))
        if names is None:
            return []
        for name in names:
            if not _accepts(_NAME, name):
                self.problem((*path, "name"), f"{name[:60]!r} is not {shapes.NODE_NAME}")
                return []
        if spec.address is None:
            for name in names:
                if problem := address_problem(name):
                    self.problem((*path, "name"), f"{problem}; or give the node an address")
                    return []
            return [(name, name) for name in names]
        if spec.address.startswith("[") and ":" in spec.address.partition("]")[0]:
            # Else the brackets of [fd00::1]:22 would be taken for a range's.
            inside, _, port = spec.address[1:].partition("]")
            beside = f", and the port beside it, as in: port: {port[1:]}" if port else ""
            self.problem((*path, "address"), f"write an IPv6 address without brackets: {inside}{beside}")
            return []
        addresses = self.expanded(spec.address, (*path, "address"))
        if addresses is None:
            return []
        for address in addresses:
            if problem := address_problem(address):
                self.problem((*path, "address"), problem)
                return []
            if not _accepts(_ADDRESS, address):
                self.problem((*path, "address"), f"{address[:60]!r} is not {shapes.ADDRESS}")
                return []
        if len(addresses) != len(names):
            self.problem(
                (*path, "address"),
                f"{spec.address} is {len(addresses)} addresses, but {spec.name} is {len(names)} nodes",
            )
            return []
        return list(zip(names, addresses, strict=True))

    def expanded(self, text: str, path: KeyPath) -> tuple[str, ...] | None:
        try:
            return nodeset.expand(text)
        except nodeset.NodeSetError as error:
            self.problem(path, f"{error}; {error.hint}" if error.hint else str(error))
            return None

    def groups(self, names: set[str]) -> dict[str, frozenset[str]]:
        members: dict[str, frozenset[str]] = {}
        for group, spec in self.file.groups.items():
            path: KeyPath = ("groups", group, "nodes")
            if group in names:
                self.problem(("groups", group), "a node has this name; --limit could not tell them apart")
            inside = self.expanded(spec.nodes, path)
            if inside is None:
                continue
            unknown = dict.fromkeys(name for name in inside if name not in names)
            if unknown:
                verb = "are no nodes" if len(unknown) > 1 else "is no node"
                self.problem(path, f"{nodeset.fold(unknown)[:200]} {verb} of this inventory")
            members[group] = frozenset(inside)
        return members

    def node(self, spec: NodeSpec, name: str, address: str, groups: tuple[str, ...]) -> Node:
        layers = [self.file.defaults, *(self.file.groups[group] for group in groups), spec]
        settings = merged([written(layer) for layer in layers])
        # A null, and a key that only places the node, fall back to the node's own default.
        kept = {key: value for key, value in settings.items() if value is not None and key not in _OWN_KEYS}
        for key in ("identity_file", "known_hosts"):
            if key in kept:
                kept[key] = str(self.located(kept[key]))
        wanted = kept.get("requirements", {})
        for requirement, key, _ in _PATHS:
            value = wanted.get(requirement, {}).get(key)
            if value is not None:
                wanted[requirement][key] = str(self.located(value))
        source = wanted.get("cluster_file", {}).get("source")
        if source is not None:
            # Read here, once: judges see no files.
            wanted["cluster_file"]["content"] = _text(Path(source))
        return Node.model_validate({**kept, "name": name, "address": address, "groups": groups})

    def located(self, text: str) -> Path:
        return self.folder / at_home(text)

    def check_files(self) -> None:
        for path, layer in self.layers():
            if layer.identity_file is not None and not is_file(self.located(layer.identity_file)):
                self.problem(
                    (*path, "identity_file"), f"there is no file {self.located(layer.identity_file)}"
                )
            if layer.requirements is None:
                continue
            for requirement, key, what in _PATHS:
                value = getattr(getattr(layer.requirements, requirement), key)
                if value is not None and not is_there(self.located(value)):
                    self.problem(
                        (*path, "requirements", requirement, key),
                        f"there is no {what} {self.located(value)}",
                    )
            self.check_cluster_file(layer, path)

    def check_cluster_file(self, layer: NodeSettings, path: KeyPath) -> None:
        settings = layer.requirements.cluster_file if layer.requirements is not None else None
        if settings is None or settings.source is None:
            return
        place: KeyPath = (*path, "requirements", "cluster_file", "source")
        if settings.content is not None:
            self.problem(place, "give either source or content")
        elif is_there(self.located(settings.source)) and _text(self.located(settings.source)) is None:
            self.problem(
                place,
                f"{self.located(settings.source)} is not a readable file of at most 1 MiB of UTF-8 text",
            )

    def layers(self) -> list[tuple[KeyPath, NodeSettings]]:
        return [
            (("defaults",), self.file.defaults),
            *((("groups", group), spec) for group, spec in self.file.groups.items()),
            *((("nodes", index), spec) for index, spec in enumerate(self.file.nodes)),
        ]

    def check_addresses(self, nodes: list[Node], spread: list[tuple[int, NodeSpec, str, str]]) -> None:
        # Behind different jump hosts one private address may be two machines.
        taken: dict[tuple[str, int, str | None], str] = {}
        for node, (index, spec, _, _) in zip(nodes, spread, strict=True):
            key = (canonical_address(node.address), node.port or 22, node.proxy_jump)
            if key in taken:
                self.problem(
                    ("nodes", index, "address" if spec.address is not None else "name"),
                    f"{node.name} has the address {node.address} port {key[1]} of {taken[key]}",
                )
            taken.setdefault(key, node.name)


def _accepts(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return re.search(r"[\x00-\x1f]", text) is None


def _text(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > 1 << 20:
            return None
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return None
    # What is written passes through a shell, which knows no zero bytes.
    return None if "\0" in text else text
