"""What a fleet's nodes need of each other's files for ``ssh-mesh``, worked out once per fleet; pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from clusterctl.requirements import ssh_mesh_texts as files
from clusterctl.requirements.addresses import reachable_address
from clusterctl.requirements.fleet import Fleet

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, OwnText
    from clusterctl.inventory.model import Node


@dataclass(frozen=True, slots=True)
class _Member:
    """A node of the mesh: by which names it may be called, its entry or what it lacks; neither when out of sight."""

    node: Node
    hosts: str
    entry: files.Entry | None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """What the fleet needs of one node's files, and what is in the way."""

    texts: files.Texts
    size: int
    waiting: tuple[str, ...]
    """Nodes in sight that lack something, each with what it is."""
    kept: tuple[str, ...] = ()
    """Nodes out of sight whose entries stay."""
    lost: tuple[str, ...] = ()
    """Nodes out of sight whose entries are in files too long to be read here."""


class _Same:
    """A fleet as the key of a cache: a thousand nodes are judged against one and the same."""

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
        if not settings.require or settings.name != name:
            continue
        facts = of.fleet.facts.get(node.name)
        missing = "" if facts is None else files.lacks(node, facts, name) or ""
        entry = None if facts is None or missing else files.entry(node, facts, name)
        known = facts or of.fleet.earlier.get(node.name)
        found.append(_Member(node, files.patterns(node, reachable_address(node, known)), entry, missing))
    return tuple(found)


@lru_cache(maxsize=4)
def _texts(of: _Same, name: str, user: str, unseen: tuple[files.Entry, ...]) -> tuple[files.Texts, int]:
    """The texts that an account needs, and for how many nodes; most nodes need the same."""
    stand_in = {entry.node: entry for entry in unseen}
    members = [(m.hosts, m.entry or stand_in.get(m.node.name)) for m in _everyone(of, name)]
    found = [(hosts, entry) for hosts, entry in members if entry is not None]
    return files.texts(user, name, found), len(found)


def whole(facts: NodeFacts, node: Node, fleet: Fleet) -> Fleet:
    """The fleet with this node in it."""
    if fleet.nodes and fleet.facts.get(node.name) is facts:
        return fleet
    return Fleet(fleet.nodes or (node,), {**fleet.facts, node.name: facts}, fleet.earlier)


def members(fleet: Fleet, name: str) -> tuple[Node, ...]:
    """Return the nodes of a mesh, in sight or not."""
    return tuple(member.node for member in _everyone(_Same(fleet), name))


def uses_drop_ins(facts: NodeFacts) -> bool:
    """Whether ssh reads /etc/ssh/ssh_config.d (OpenSSH of Debian 11, Ubuntu 20.04 and RHEL 8 on).

    SUSE's takes the ssh_config of /usr/etc while /etc has none, and one made there would hide it.
    """
    paths = {line.path for line in facts.ssh_mesh.client}
    main = next((path for path in ("/etc/ssh/ssh_config", "/usr/etc/ssh/ssh_config") if path in paths), None)
    return any(
        line.path == main and line.text.lower().startswith("include") and "ssh_config.d/" in line.text
        for line in facts.ssh_mesh.client
    )


def block_name(node: Node) -> str:
    """Return the name of the mesh's blocks in files that others write too."""
    return f"ssh-{node.requirements.ssh_mesh.name}"


def _own(facts: NodeFacts, node: Node) -> list[OwnText | None]:
    """What clusterctl keeps in authorized_keys, known_hosts and ssh_config."""
    name, mesh = node.requirements.ssh_mesh.name, facts.ssh_mesh
    begin = files.begin(block_name(node))
    in_config = (files.config_path(name),) if uses_drop_ins(facts) else ("/etc/ssh/ssh_config", begin)
    return [
        mesh.own_text(mesh.authorized_keys, begin),
        mesh.own_text(files.known_hosts_path(name)),
        mesh.own_text(*in_config),
    ]


def need_of(facts: NodeFacts, node: Node, fleet: Fleet, user: str) -> Need:
    """Return what a node's files must say; of nodes out of sight they go on saying what they say."""
    name = node.requirements.ssh_mesh.name
    everyone = _everyone(_Same(fleet), name)
    waiting = tuple(f"{member.node.name}: {member.missing}" for member in everyone if member.missing)
    unseen = [m.node for m in everyone if m.entry is None and not m.missing]
    kept, lost = _unseen(facts, node, fleet, unseen) if unseen else ((), ())
    texts, size = _texts(_Same(fleet), name, user, kept)
    return Need(texts, size, waiting, tuple(entry.node for entry in kept), lost)


def _unseen(
    facts: NodeFacts, node: Node, fleet: Fleet, unseen: list[Node]
) -> tuple[tuple[files.Entry, ...], tuple[str, ...]]:
    """Return the entries of nodes out of sight that stay, and the nodes whose entries could not be read."""
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
