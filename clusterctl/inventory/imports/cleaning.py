"""Reduce an import to what an inventory accepts; add a note for every node and value that is left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address

from pydantic import TypeAdapter, ValidationError

from clusterctl.inventory.field_types import Address, NodeName, address_problem, canonical_address
from clusterctl.inventory.imports.found import FoundNode, ImportedInventory, ImportNote, Setting
from clusterctl.inventory.model import NodeSettings

_NAME: TypeAdapter[str] = TypeAdapter(NodeName)
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)


def cleaned(found: ImportedInventory, exists: Callable[[str], bool]) -> ImportedInventory:
    """Return the nodes and groups that an inventory accepts; ``exists`` tests whether a file (with ``~``) exists."""
    notes = list(found.notes)
    missing: dict[str, list[FoundNode]] = {}
    refused: dict[tuple[str, Setting], list[FoundNode]] = {}
    nodes: dict[str, FoundNode] = {}
    taken: dict[tuple[str, int, Setting | None], str] = {}
    renamed: dict[str, str] = {}
    for given in found.nodes:
        node = _named(given)
        renamed[given.name] = node.name
        if not _fits(_NAME, node.name):
            text = f"{node.name[:60]!r} is not imported: a node's name must have letters, digits, '.', '_' and '-'"
            notes.append(ImportNote(node.file, node.line, text))
            continue
        address = node.address
        if address is None and (problem := address_problem(node.name)):
            notes.append(ImportNote(node.file, node.line, f"{node.name} is not imported: {problem}"))
            continue
        if address is not None and not _fits(_ADDRESS, address):
            text = f"{node.name} is not imported: {address[:60]!r} is not a valid host name or address"
            notes.append(ImportNote(node.file, node.line, text))
            continue
        settings: dict[str, Setting] = {}
        for key, value in node.settings.items():
            if not _accepted(key, value):
                refused.setdefault((key, value), []).append(node)
            elif key == "identity_file" and not exists(str(value)):
                missing.setdefault(str(value), []).append(node)
            else:
                settings[key] = value
        place = (
            canonical_address(address or node.name),
            int(settings.get("port", 22)),
            settings.get("proxy_jump"),
        )
        if place in taken:
            text = f"{node.name} is not imported: it has the same address and port as {taken[place]}"
            notes.append(ImportNote(node.file, node.line, text))
            continue
        taken[place] = node.name
        nodes[node.name] = replace(node, settings=settings)
    for (key, value), there in refused.items():
        text = f"{key} {str(value)[:60]!r} of {_names(there)} is not imported: not valid in an inventory"
        notes.append(ImportNote(there[0].file, there[0].line, text))
    for path, there in missing.items():
        text = f"identity_file {path} of {_names(there)} is not imported: file not found on this machine"
        notes.append(ImportNote(there[0].file, there[0].line, text))
    groups = _groups(found, nodes, renamed, notes)
    return ImportedInventory(tuple(nodes.values()), groups, tuple(dict.fromkeys(notes)))


def _named(node: FoundNode) -> FoundNode:
    """Replace the name of a node that is an IPv6 address by one that launchers accept."""
    try:
        IPv6Address(node.name)
    except ValueError:
        return node
    name = "node-" + re.sub("[^0-9A-Za-z]+", "-", node.name).strip("-")
    return replace(node, name=name, address=node.address or node.name)


def _groups(
    found: ImportedInventory, nodes: dict[str, FoundNode], renamed: dict[str, str], notes: list[ImportNote]
) -> dict[str, tuple[str, ...]]:
    groups = {}
    file = found.nodes[0].file if found.nodes else ""
    for name, members in found.groups.items():
        kept = tuple(renamed[member] for member in members if renamed[member] in nodes)
        if name in nodes:
            notes.append(ImportNote(file, 0, f"the group {name} is not imported: a node has the same name"))
        elif not _fits(_NAME, name):
            notes.append(
                ImportNote(file, 0, f"the group {name[:60]!r} is not imported: not a valid group name")
            )
        elif kept:
            groups[name] = kept
    return groups


def _fits(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return text.isprintable()


def _accepted(key: str, value: Setting) -> bool:
    if isinstance(value, str) and (not value.isprintable() or not value):
        return False
    try:
        NodeSettings.model_validate({key: value})
    except ValidationError:
        return False
    return True


def _names(nodes: list[FoundNode]) -> str:
    first = nodes[0].name
    return first if len(nodes) == 1 else f"{first} and {len(nodes) - 1} more"
