"""Compute the files that each node of a fleet needs for ``ssh-mesh``, once per fleet; pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from clusterctl.requirements.fleet.addresses import reachable_address
from clusterctl.requirements.fleet.ssh_mesh import texts as files
from clusterctl.requirements.fleet.view import Fleet

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.sharing import OwnText
    from clusterctl.inventory.model import Node


@dataclass(frozen=True, slots=True)
class _Member:
    """A node of the mesh: its host patterns, and its entry or what is missing; neither when it was not checked."""

    node: Node
    hosts: str
    entry: files.MeshEntry | None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """The files that the fleet needs on one node, and what prevents them."""

    texts: files.Texts
    size: int
    waiting: tuple[tuple[str, str], ...]
    """What checked nodes lack, each with the name of its node."""
    kept: tuple[str, ...] = ()
    """Nodes not checked in this run (unreachable or not selected), whose entries are kept."""
    lost: tuple[str, ...] = ()
    """Nodes not checked in this run, whose entries are in files that are too long for the probe."""


class _Same:
    """A cache key that compares fleets by identity: a thousand nodes are judged against the same fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.fleet is self.fleet

    def __hash__(self) -> int:
        return id(self.fleet)


@lru_cache(maxsize=2)
def _everyone(of: _Same, name: str) -> tuple[_Member, ...]:
    found: list[_Member] = []
    for node in of.fleet.nodes:
        settings = node.requirements.ssh_mesh
        if settings.require is False or settings.name != name:
            continue
        facts = of.fleet.facts.get(node.name)
        missing = "" if facts is None else files.lacks(node, facts, name) or ""
        entry = None if facts is None or missing else files.entry(node, facts, name)
        known = facts or of.fleet.earlier.get(node.name)
        found.append(_Member(node, files.patterns(node, reachable_address(node, known)), entry, missing))
    return tuple(found)


@lru_cache(maxsize=4)
def _texts(of: _Same, name: str, user: str, unseen: tuple[files.MeshEntry, ...]) -> tuple[files.Texts, int]:
    """Return the texts that an account needs and the number of nodes in them; most nodes share one result."""
    stand_in = {entry.node: entry for entry in unseen}
    members = [(m.hosts, m.entry or stand_in.get(m.node.name)) for m in _everyone(of, name)]
    found = [(hosts, entry) for hosts, entry in members if entry is not None]
    return files.texts(user, name, found), len(found)


def whole(facts: NodeFacts, node: Node, fleet: Fleet) -> Fleet:
    """Return the fleet with this node in it."""
    if fleet.nodes and fleet.facts.get(node.name) is facts:
        return fleet
    return Fleet(
        fleet.nodes or (node,), {**fleet.facts, node.name: facts}, fleet.earlier, fleet.launcher, fleet.core
    )


def members(fleet: Fleet, name: str) -> tuple[Node, ...]:
    """Return the nodes of a mesh, checked in this run or not."""
    return tuple(member.node for member in _everyone(_Same(fleet), name))


def uses_drop_ins(facts: NodeFacts) -> bool:
    """Return whether ssh reads /etc/ssh/ssh_config.d (from Debian 11, Ubuntu 20.04 and RHEL 8).

    SUSE's ssh reads /usr/etc/ssh/ssh_config while /etc/ssh has no such file; a new one in /etc would hide it.
    """
    paths = {line.path for line in facts.ssh_mesh.client}
    main = next((path for path in ("/etc/ssh/ssh_config", "/usr/etc/ssh/ssh_config") if path in paths), None)
    return any(
        line.path == main and line.text.lower().startswith("include") and "ssh_config.d/" in line.text
        for line in facts.ssh_mesh.client
    )


def block_name(node: Node) -> str:
    """Return the name of the mesh's blocks in files that other programs write too."""
    return f"ssh-{node.requirements.ssh_mesh.name}"


def _own(facts: NodeFacts, node: Node) -> list[OwnText | None]:
    """Return clusterctl's own parts of authorized_keys, known_hosts and ssh_config, in this order."""
    name, mesh = node.requirements.ssh_mesh.name, facts.ssh_mesh
    begin = files.begin(block_name(node))
    in_config = (files.config_path(name),) if uses_drop_ins(facts) else ("/etc/ssh/ssh_config", begin)
    return [
        mesh.own_text(mesh.authorized_keys, begin),
        mesh.own_text(files.known_hosts_path(name)),
        mesh.own_text(*in_config),
    ]


def need_of(facts: NodeFacts, node: Node, fleet: Fleet, user: str) -> Need:
    """Return the required content of a node's files; entries of nodes not checked in this run are kept."""
    name = node.requirements.ssh_mesh.name
    everyone = _everyone(_Same(fleet), name)
    waiting = tuple((member.missing, member.node.name) for member in everyone if member.missing)
    unseen = [m.node for m in everyone if m.entry is None and not m.missing]
    kept, lost = _unseen(facts, node, fleet, unseen) if unseen else ((), ())
    texts, size = _texts(_Same(fleet), name, user, kept)
    return Need(texts, size, waiting, tuple(entry.node for entry in kept), lost)


def _unseen(
    facts: NodeFacts, node: Node, fleet: Fleet, unseen: list[Node]
) -> tuple[tuple[files.MeshEntry, ...], tuple[str, ...]]:
    """Return the entries to keep of nodes not checked in this run, and the nodes whose entries could not be read."""
    name, own = node.requirements.ssh_mesh.name, _own(facts, node)
    all_read = all(text is None or text.text is not None for text in own)
    before = [(text.text or "") if text is not None else "" for text in own]
    standing = {found.node: found for found in files.standing(before[0], before[1], before[2], name)}
    kept, lost = [], []
    for other in unseen:
        entry, earlier = standing.get(other.name), fleet.earlier.get(other.name)
        if entry is None and earlier is not None and files.lacks(other, earlier, name) is None:
            entry = files.entry(other, earlier, name)
        if entry is not None:
            kept.append(entry)
        elif not all_read:
            lost.append(other.name)
    return tuple(kept), tuple(lost)
