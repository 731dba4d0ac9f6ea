"""Resolve the file as written into nodes: expand ranges, and merge the settings of defaults, groups and nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from clusterctl.inventory import nodeset, shapes
from clusterctl.inventory.field_types import Address, NodeName, address_problem, canonical_address
from clusterctl.inventory.model import Inventory, InventoryFile, Node, NodeSettings, NodeSpec
from clusterctl.inventory.problems import InventoryProblem, KeyPath, refusal
from clusterctl.inventory.user_paths import at_home, is_folder, is_there
from clusterctl.inventory.yaml_source import Document
from clusterctl.text import user_files

_NAME: TypeAdapter[str] = TypeAdapter(NodeName)
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)
_OWN_KEYS = frozenset({"name", "address", "nodes"})
MAX_SETTINGS = 1 << 21
"""Maximum number of values merged into all nodes, since each node may have its own copy of large defaults."""
MAX_CLUSTER_FILE_BYTES = 1 << 20
_PATHS = (
    ("peermem", "source", "directory or tarball"),
    ("mpi", "mpich", "directory or tarball"),
    ("mpi", "nccl", "directory or tarball"),
    ("mpi", "nccl_tests", "directory or tarball"),
    ("packages", "folder", "directory"),
    ("cluster_file", "source", "file"),
)
"""Settings of requirements that are paths on this machine: requirement, key, kind of file."""


def resolve(file: InventoryFile, document: Document, folder: Path) -> Inventory:
    """Return the inventory with every node's settings; relative paths start at the given directory.

    Raise InventoryError with every problem of names, addresses, groups and files.
    """
    resolver = _Resolver(file, document, folder)
    nodes = resolver.nodes()
    if resolver.problems:
        raise refusal(document.file, resolver.problems)
    return Inventory(nodes=nodes, launcher=file.launcher, source=document.file)


def merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge settings key by key, later layers over earlier ones; replace lists, merge mappings in depth."""
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
    """Return only the settings in the file, in depth, so that defaults never override a lower layer."""
    return settings.model_dump(exclude_unset=True)


class _Resolver:
    """One pass over the file, which collects problems instead of raising them."""

    def __init__(self, file: InventoryFile, document: Document, folder: Path) -> None:
        self.file = file
        self.document = document
        self.folder = folder
        self.problems: list[InventoryProblem] = []
        self.defaults = written(file.defaults)
        self.group_settings = {group: written(spec) for group, spec in file.groups.items()}
        self.texts: dict[Path, str | None] = {}
        self.merges = 0

    def problem(self, path: KeyPath, message: str) -> None:
        self.problems.append(self.document.problem(path, message))

    def nodes(self) -> tuple[Node, ...]:
        spread = self.spread()
        numbers = {name: number for number, (_, _, name, _) in enumerate(spread)}
        memberships = self.memberships(numbers) if spread else []
        self.check_files()
        if self.problems:
            return ()
        nodes: list[Node] = []
        resolved: dict[tuple[int, tuple[str, ...]], Node] = {}
        for (index, spec, name, address), inside in zip(spread, memberships, strict=True):
            if (index, inside) not in resolved:
                layers = [self.defaults, *(self.group_settings[group] for group in inside), written(spec)]
                if not self.affordable(layers, ("nodes", index)):
                    return ()
                resolved[index, inside] = self.node(layers, name, address, inside)
            nodes.append(resolved[index, inside].model_copy(update={"name": name, "address": address}))
        self.check_addresses(nodes, spread)
        return tuple(nodes)

    def spread(self) -> list[tuple[int, NodeSpec, str, str]]:
        """Return every node with its entry and address, in file order; nothing if there are too many."""
        sets = [self.parsed(spec.name, ("nodes", i, "name")) for i, spec in enumerate(self.file.nodes)]
        total = sum(found.size for found in sets if found is not None)
        if total > nodeset.MAX_NODES:
            self.problem(("nodes",), f"{total} nodes; at most {nodeset.MAX_NODES} are accepted")
            return []
        places: dict[str, KeyPath] = {}
        spread: list[tuple[int, NodeSpec, str, str]] = []
        for index, (spec, names) in enumerate(zip(self.file.nodes, sets, strict=True)):
            path: KeyPath = ("nodes", index)
            for name, address in self.names_and_addresses(spec, names, path):
                if name in places:
                    line = self.document.line(places[name])
                    self.problem(
                        (*path, "name"), f"the node {name} is given twice; it is already on line {line}"
                    )
                    continue
                places[name] = (*path, "name")
                spread.append((index, spec, name, address))
        return spread

    def names_and_addresses(
        self, spec: NodeSpec, given: nodeset.NodeSet | None, path: KeyPath
    ) -> list[tuple[str, str]]:
        if given is None:
            return []
        names = tuple(given.names())
        for name in names:
            if not _accepts(_NAME, name):
                with_user = address_problem(name) if "@" in name else None
                self.problem((*path, "name"), with_user or f"{name[:60]!r} is not {shapes.NODE_NAME}")
                return []
        if spec.address is None:
            for name in names:
                if problem := address_problem(name):
                    self.problem((*path, "name"), f"{problem}; if it is a name, set the node's 'address' too")
                    return []
            return [(name, name) for name in names]
        if spec.address.startswith("[") and ":" in spec.address.partition("]")[0]:
            # Otherwise the brackets of [fd00::1]:22 would be parsed as a range.
            inside, _, port = spec.address[1:].partition("]")
            beside = f", and the port as a key of its own: 'port: {port[1:]}'" if port else ""
            self.problem((*path, "address"), f"write an IPv6 address without brackets: {inside}{beside}")
            return []
        listed = self.parsed(spec.address, (*path, "address"))
        if listed is None:
            return []
        if listed.size != given.size:
            self.problem(
                (*path, "address"),
                f"{spec.address} has {listed.size} addresses, but {spec.name} has {given.size} nodes; "
                "expected as many addresses as nodes",
            )
            return []
        addresses = tuple(listed.names())
        for address in addresses:
            if problem := address_problem(address):
                self.problem((*path, "address"), problem)
                return []
            if not _accepts(_ADDRESS, address):
                self.problem((*path, "address"), f"{address[:60]!r} is not {shapes.ADDRESS}")
                return []
        return list(zip(names, addresses, strict=True))

    def parsed(self, text: str, path: KeyPath) -> nodeset.NodeSet | None:
        try:
            return nodeset.parse(text)
        except nodeset.NodeSetError as error:
            self.problem(path, f"{error}; {error.hint}" if error.hint else str(error))
            return None

    def memberships(self, numbers: Mapping[str, int]) -> list[tuple[str, ...]]:
        """Return the groups of each node, in file order; ``numbers`` maps the nodes' names to their index."""
        sets: dict[str, nodeset.NodeSet] = {}
        total = 0
        for group, spec in self.file.groups.items():
            path: KeyPath = ("groups", group, "nodes")
            if group in numbers:
                self.problem(
                    ("groups", group), "a node has the same name; rename one, so that --limit is unambiguous"
                )
            members = self.parsed(spec.nodes, path)
            if members is None:
                continue
            sets[group] = members
            # Counted before names are expanded, since a few bytes of each group may expand to the whole fleet.
            total += members.size
            if total > nodeset.MAX_MEMBERS:
                self.problem(
                    path,
                    f"the groups up to this one have {total} members; at most {nodeset.MAX_MEMBERS} over all "
                    "groups are accepted; settings of all nodes belong under defaults",
                )
                return []
        inside: list[list[str]] = [[] for _ in numbers]
        for group, members in sets.items():
            unknown: dict[str, None] = {}
            for name in members.names():
                if name not in numbers:
                    unknown[name] = None
                elif inside[numbers[name]][-1:] != [group]:
                    inside[numbers[name]].append(group)
            if unknown:
                verb = "are not nodes" if len(unknown) > 1 else "is not a node"
                self.problem(
                    ("groups", group, "nodes"),
                    f"{nodeset.fold(unknown)[:200]} {verb} of this inventory",
                )
        # Nodes in the same groups share one tuple.
        shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        return [shared.setdefault(groups, groups) for groups in map(tuple, inside)]

    def affordable(self, layers: list[dict[str, Any]], path: KeyPath) -> bool:
        """Count the settings that merge into one more node; return False and report a problem above the limit."""
        self.merges += 1 + sum(map(_count, layers))
        if self.merges > MAX_SETTINGS:
            self.problem(
                path,
                f"defaults, groups and nodes give the nodes up to this one more than {MAX_SETTINGS} settings; "
                "write nodes with equal settings as one entry, such as gpu[01-16], which counts once",
            )
        return self.merges <= MAX_SETTINGS

    def node(self, layers: list[dict[str, Any]], name: str, address: str, groups: tuple[str, ...]) -> Node:
        settings = merged(layers)
        # null values and keys that only describe the entry are dropped, so that the node's default applies.
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
            # Read once, here, because requirements cannot read files.
            wanted["cluster_file"]["content"] = self.text(Path(source))
        return Node.model_validate({**kept, "name": name, "address": address, "groups": groups})

    def located(self, text: str) -> Path:
        return self.folder / at_home(text)

    def check_files(self) -> None:
        for path, layer in self.layers():
            self.check_regular(layer.identity_file, (*path, "identity_file"), user_files.KEY_BYTES)
            if layer.identity_file is not None and not is_there(self.located(layer.identity_file)):
                self.problem((*path, "identity_file"), f"file not found: {self.located(layer.identity_file)}")
            # A known_hosts file may not exist yet, because --accept-new-host-keys creates it.
            self.check_regular(layer.known_hosts, (*path, "known_hosts"), user_files.KNOWN_HOSTS_BYTES)
            if layer.requirements is None:
                continue
            for requirement, key, what in _PATHS:
                value = getattr(getattr(layer.requirements, requirement), key)
                if value is not None and not is_there(self.located(value)):
                    self.problem(
                        (*path, "requirements", requirement, key),
                        f"{what} not found: {self.located(value)}",
                    )
            self.check_cluster_file(layer, path)

    def check_regular(self, text: str | None, path: KeyPath, most_bytes: int) -> None:
        if text is None:
            return
        place = self.located(text)
        unfit = user_files.problem_with(place, most_bytes)
        if is_folder(place):
            self.problem(path, f"{place} is a directory; expected a file")
        elif unfit is not None:
            self.problem(path, f"{place} cannot be read: {unfit.strerror}")

    def check_cluster_file(self, layer: NodeSettings, path: KeyPath) -> None:
        settings = layer.requirements.cluster_file if layer.requirements is not None else None
        if settings is None or settings.source is None:
            return
        place: KeyPath = (*path, "requirements", "cluster_file", "source")
        if settings.content is not None:
            self.problem(place, "set either source or content, not both")
        elif is_there(self.located(settings.source)) and self.text(self.located(settings.source)) is None:
            self.problem(
                place,
                f"{self.located(settings.source)} is not a readable file of at most 1 MiB of UTF-8 text",
            )

    def text(self, path: Path) -> str | None:
        if path not in self.texts:
            self.texts[path] = _text(path)
        return self.texts[path]

    def layers(self) -> list[tuple[KeyPath, NodeSettings]]:
        return [
            (("defaults",), self.file.defaults),
            *((("groups", group), spec) for group, spec in self.file.groups.items()),
            *((("nodes", index), spec) for index, spec in enumerate(self.file.nodes)),
        ]

    def check_addresses(self, nodes: list[Node], spread: list[tuple[int, NodeSpec, str, str]]) -> None:
        # Behind different jump hosts one private address may belong to two machines.
        taken: dict[tuple[str, int, str | None], str] = {}
        for node, (index, spec, _, _) in zip(nodes, spread, strict=True):
            key = (canonical_address(node.address), node.port or 22, node.proxy_jump)
            if key in taken:
                self.problem(
                    ("nodes", index, "address" if spec.address is not None else "name"),
                    f"{node.name} has the same address and port as {taken[key]}: {node.address} port {key[1]}",
                )
            taken.setdefault(key, node.name)


def _accepts(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return re.search(r"[\x00-\x1f]", text) is None


def _count(settings: Mapping[str, Any]) -> int:
    """Return the number of values in settings, in depth."""
    return sum(
        _count(value)
        if isinstance(value, Mapping)
        else len(value) + 1
        if isinstance(value, (list, tuple))
        else 1
        for value in settings.values()
    )


def _text(path: Path) -> str | None:
    try:
        text = user_files.read(path, MAX_CLUSTER_FILE_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return None
    # The text passes through a shell, which cannot handle zero bytes.
    return None if "\0" in text else text
