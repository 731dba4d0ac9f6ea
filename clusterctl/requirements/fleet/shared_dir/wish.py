"""Read the inventory's settings of the shared directory from the view of one node; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.model.services import mount_target
from clusterctl.requirements.fleet.addresses import reachable_address, source_addresses
from clusterctl.requirements.fleet.shared_dir import mount as mounts

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet


def server(node: Node, fleet: Fleet) -> Node | None:
    """Return the node that exports the directory; None without such a node in the inventory."""
    name = node.requirements.shared_dir.server
    return next((other for other in (node, *fleet.nodes) if other.name == name), None)


def contradiction(node: Node, fleet: Fleet) -> str | None:
    """Return what is wrong with the inventory's settings; None when they are consistent."""
    settings = node.requirements.shared_dir
    if settings.path is None or mount_target(settings.path) == "/":
        return "the shared directory cannot be mounted at /: set another shared_dir.path"
    if (settings.server is None) == (settings.export is None):
        return "the inventory must set either shared_dir.server or shared_dir.export, not both"
    if settings.export is not None:
        return None
    exporting = server(node, fleet)
    if exporting is None:
        return f"shared_dir.server '{settings.server}' must be the name of a node in the inventory"
    own = exporting.requirements.shared_dir
    if own.path is None or own.server != exporting.name or folder(exporting) != folder(node):
        return (
            f"{exporting.name} has other shared_dir settings: they must make it the server of {folder(node)}"
        )
    return (
        "the shared directory must not be /: that exports the whole file system"
        if folder(node) == "/"
        else None
    )


def squashes(node: Node, facts: NodeFacts) -> bool:
    """Return whether a client's root is squashed; by default not where the login is root, which must write."""
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
    """Return the numeric addresses of the exporting node; empty when the inventory does not have that node."""
    exporting = server(node, fleet)
    if node.requirements.shared_dir.export is not None or exporting is None:
        return ()
    return source_addresses(exporting, fleet.facts.get(exporting.name) or fleet.earlier.get(exporting.name))


def folder(node: Node) -> str:
    """Return the directory's path on the server."""
    settings = node.requirements.shared_dir
    return mount_target(settings.folder or settings.path or "/")


def path(node: Node) -> str:
    """Return the directory's path on each node."""
    return mount_target(node.requirements.shared_dir.path or "/")


def is_server(node: Node) -> bool:
    """Return whether the node is the one that exports."""
    settings = node.requirements.shared_dir
    return settings.export is None and settings.server == node.name


def numbers(node: Node, facts: NodeFacts, fleet: Fleet) -> tuple[str, ...]:
    """Warn when the login's UID differs from that on the server (or first node): NFS identifies users by UID."""
    exporting = node.requirements.shared_dir.server or next(iter(fleet.facts), node.name)
    own, there = facts.ssh_mesh.login.value, fleet.facts.get(exporting)
    other = None if there is None else there.ssh_mesh.login.value
    if own is None or other is None or own.user != other.user or own.uid == other.uid:
        return ()
    where = f"{own.user} has UID {own.uid} on this node and {other.uid} on {exporting}"
    return (f"{where}: files will appear to belong to another user",)
