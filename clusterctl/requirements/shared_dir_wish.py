"""What the inventory wants of a shared folder, as seen from one node; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements import shared_dir_mount as mounts
from clusterctl.requirements.addresses import reachable_address, source_addresses

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet import Fleet


def server(node: Node, fleet: Fleet) -> Node | None:
    """Return the node that exports the folder; None where none does, or where it is no node of the inventory."""
    name = node.requirements.shared_dir.server
    return next((other for other in (node, *fleet.nodes) if other.name == name), None)


def contradiction(node: Node, fleet: Fleet) -> str | None:
    """Say what is wrong with the inventory's words; None when they make sense."""
    settings = node.requirements.shared_dir
    if settings.path is None or mounts.normal(settings.path) == "/":
        return "the shared folder cannot be mounted over /"
    if (settings.server is None) == (settings.export is None):
        return "the inventory must name the server of the shared folder, or an export, and not both"
    if settings.export is not None:
        return None
    exporting = server(node, fleet)
    if exporting is None:
        return f"the server {settings.server} is no node of the inventory"
    own = exporting.requirements.shared_dir
    if own.path is None or own.server != exporting.name or folder(exporting) != folder(node):
        return (
            f"the inventory's words for {exporting.name} itself do not make it the server of {folder(node)}"
        )
    return "a node's whole file system is not to be exported" if folder(node) == "/" else None


def squashes(node: Node, facts: NodeFacts) -> bool:
    """Whether root of a client is nobody: not where the nodes' own account is root and could not write."""
    wanted, login = node.requirements.shared_dir.squash_root, facts.ssh_mesh.login.value
    return wanted if wanted is not None else login is None or login.uid != 0


def what(node: Node, fleet: Fleet) -> str | None:
    """Return the export to mount, or None when no address of the server is known."""
    settings, exporting = node.requirements.shared_dir, server(node, fleet)
    if settings.export is not None or exporting is None:
        return settings.export
    host = reachable_address(exporting, fleet.facts.get(exporting.name))
    return None if host is None else mounts.source(host, folder(node))


def server_addresses(node: Node, fleet: Fleet) -> tuple[str, ...]:
    """Return the addresses, in numbers, of the node that exports; none where it is no node of the inventory."""
    exporting = server(node, fleet)
    if node.requirements.shared_dir.export is not None or exporting is None:
        return ()
    return source_addresses(exporting, fleet.facts.get(exporting.name) or fleet.earlier.get(exporting.name))


def folder(node: Node) -> str:
    """Return the folder on the server."""
    settings = node.requirements.shared_dir
    return mounts.normal(settings.folder or settings.path or "/")


def path(node: Node) -> str:
    """Return where every node has the folder."""
    return mounts.normal(node.requirements.shared_dir.path or "/")


def is_server(node: Node) -> bool:
    """Whether the node is the one that exports."""
    settings = node.requirements.shared_dir
    return settings.export is None and settings.server == node.name


def numbers(node: Node, facts: NodeFacts, fleet: Fleet) -> tuple[str, ...]:
    """Warn of an account whose number is another on the server, or the first node: NFS knows users by number."""
    exporting = node.requirements.shared_dir.server or next(iter(fleet.facts), node.name)
    own, there = facts.ssh_mesh.login.value, fleet.facts.get(exporting)
    other = None if there is None else there.ssh_mesh.login.value
    if own is None or other is None or own.user != other.user or own.uid == other.uid:
        return ()
    where = f"{own.user} has the number {own.uid} here and {other.uid} on {exporting}"
    return (f"{where}: files will seem to be another's",)
