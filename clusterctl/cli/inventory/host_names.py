"""Name nodes that were given by address by the host names that a probe read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterctl.inventory.field_types import NODE_NAME, is_address
from clusterctl.transport.base import HostMap

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.imports.found import ImportedInventory

_NAME = re.compile(NODE_NAME)
_OF_NO_NODE = ("localhost", "localhost.localdomain")


def applied(
    found: ImportedInventory, facts: HostMap[NodeFacts]
) -> tuple[ImportedInventory, HostMap[NodeFacts]]:
    """Return nodes, groups and facts under the new names.

    A host name is the name of a node if no other node has it; a node without one keeps its address as its name.
    """
    names = dict(_chosen(found, facts.values_by_node))
    nodes = tuple(
        replace(node, name=names[node.name], address=node.address or node.name)
        if node.name in names
        else node
        for node in found.nodes
    )
    groups = {
        group: tuple(names.get(member, member) for member in members)
        for group, members in found.groups.items()
    }
    renamed = {names.get(name, name): outcome for name, outcome in facts.items()}
    return replace(found, nodes=nodes, groups=groups), HostMap(renamed)


def _chosen(found: ImportedInventory, facts: Mapping[str, NodeFacts]) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each node that gets a new one: without its domain, if that is unique."""
    hosts = {name: one.system.hostname.or_else("") for name, one in facts.items()}
    given = {node.name for node in found.nodes}
    short = Counter(host.partition(".")[0] for host in hosts.values())
    whole = Counter(hosts.values())
    for node in found.nodes:
        host = hosts.get(node.name, "")
        name = host.partition(".")[0] if short[host.partition(".")[0]] == 1 else host
        if is_address(node.address or node.name) and whole[host] == 1 and _fits(name) and name not in given:
            yield node.name, name


def _fits(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in _OF_NO_NODE and not is_address(name)
