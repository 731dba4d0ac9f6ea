"""``shared-dir``: one directory at one path on all nodes, exported over NFS by a node or by an existing server.

The server exports first; the other nodes mount in the next round, after the probe has seen the exports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.subjects.nfs import PATIENCE_S
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.fleet.shared_dir import export as exports
from clusterctl.requirements.fleet.shared_dir import mount as mounts
from clusterctl.requirements.fleet.shared_dir import wish
from clusterctl.requirements.packages import by_hand, install, manager
from clusterctl.requirements.steps import EnableUnit, Step, WriteFile
from clusterctl.requirements.wording import NO_SYSTEMD, because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "shared-dir"
TITLE = "All nodes share a directory"
READS = frozenset({"network", "nfs", "software", "ssh_mesh", "storage", "system"})
ABOUT = About(
    checks="if required: the directory that the inventory names is the same NFS export on all nodes",
    why="mpirun and others expect programs and data at the same path on all nodes",
    bootstrap="exports the directory on the server, and mounts it on the other nodes",
    undo="unmounts it on the clients, and withdraws the export; a directory with files in it stays",
    settings=("requirements.shared_dir", "requirements.packages"),
)

SERVER_UNIT = "nfs-server.service"


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when the right directory is mounted and answers, and, on the server, the nodes may mount it.

    The steps export on the server, or mount on a client after the server exports to it.
    """
    if node.requirements.shared_dir.path is None:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not set a shared directory")
    if facts.in_container:
        return Decision(NAME, Status.NOT_APPLICABLE, "this is a container: its mounts are set on its host")
    wrong = wish.contradiction(node, fleet)
    if wrong is not None:
        return Decision(NAME, Status.UNMET, wrong)
    if facts.storage.mounts.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the list of mounts", facts.storage.mounts))
    path = wish.path(node)
    evidence: dict[str, Json] = {"path": path}
    waiting = _waiting(facts, node)
    if waiting is not None:
        if facts.nfs.state_of(waiting) in ("hung", "failed"):
            reason = f"the automount at {waiting} failed: see systemctl status '{mounts.unit_name(waiting)}'"
            return Decision(NAME, Status.UNMET, reason, evidence)
        reason = f"the automount at {waiting} has not mounted anything yet: run ls {path} and check again"
        return Decision(NAME, Status.UNKNOWN, reason, evidence)
    if wish.is_server(node):
        return _decide_server(facts, node, fleet, evidence)
    what = wish.what(node, fleet)
    warnings = wish.numbers(node, facts, fleet)
    evidence["export"] = what
    problem = _mount_problem(facts, node, fleet, what)
    if problem is None:
        return Decision(NAME, Status.MET, f"{what} is mounted at {path} and answers", evidence, warnings)
    waits = _waits(facts, node, fleet)
    if mounts.mounted_at(facts, path) is None:
        problem += waits + by_hand(facts, "the NFS client")
    steps = () if what is None else _client_steps(facts, node, fleet, what, waits=bool(waits))
    # The server's steps come first, if the server was checked.
    server = wish.server(node, fleet)
    is_later = bool(waits) and not steps and server is not None and server.name in fleet.facts
    return Decision(
        NAME, Status.UNMET, problem, evidence, warnings, steps, _no_step(facts), NAME if is_later else ""
    )


def _no_step(facts: NodeFacts) -> str:
    return "" if facts.system.systemd_running else NO_SYSTEMD


def _waiting(facts: NodeFacts, node: Node) -> str | None:
    """Return the path of the site's own automount for the directory; None on a server that exports its own path."""
    if wish.is_server(node) and wish.path(node) == wish.folder(node):
        return None
    return mounts.automount_waiting(facts, wish.path(node))


def _mount_problem(facts: NodeFacts, node: Node, fleet: Fleet, what: str | None) -> str | None:
    """Return what is wrong with a client's mount; None when it is correct."""
    path = wish.path(node)
    if what is None:
        return "the server has no known address that other nodes can reach"
    found = mounts.mounted_at(facts, path)
    if found is None:
        return f"{what} is not mounted at {path}"
    if not mounts.is_export(found, what, wish.server_addresses(node, fleet)):
        return f"{found.source} ({found.fstype}) is mounted at {path}, not {what}: unmount it first"
    state = facts.nfs.state_of(path)
    unit = mounts.unit_name(path)
    if state == "hung":
        return (
            f"{what} at {path} did not answer for {PATIENCE_S} s: check that its server runs and is reachable"
        )
    if state in ("stale", "failed"):
        word = "is stale" if state == "stale" else "answers with an error"
        return f"{what} at {path} {word}: umount -l {path}, then systemctl restart '{unit}'"
    return _unit_gap(facts, node, what, remote=True)


def _unit_gap(facts: NodeFacts, node: Node, what: str, *, remote: bool) -> str | None:
    """Return what is wrong with clusterctl's mount unit if it exists; a mount from the site's fstab is accepted."""
    name = mounts.unit_name(wish.path(node))
    unit = facts.nfs.unit(name)
    if unit is None:
        return None
    text = _unit_text(node, what, remote=remote)
    if not mounts.is_unit(unit, text):
        return f"{name} differs from the inventory"
    return None if unit.enabled else f"{name} is not started at boot"


def _unit_text(node: Node, what: str, *, remote: bool) -> str:
    settings = node.requirements.shared_dir
    options = mounts.options(settings.options, own_server=settings.export is None) if remote else mounts.BIND
    return mounts.unit_text(what, wish.path(node), options)


def _waits(facts: NodeFacts, node: Node, fleet: Fleet) -> str:
    """Return what a client must wait for, to be appended to a reason; empty when it can mount."""
    server = wish.server(node, fleet)
    if node.requirements.shared_dir.export is not None or server is None:
        return ""
    seen = fleet.facts.get(server.name)
    if seen is None:
        return f"; its server {server.name} was not checked in this run"
    return (
        ""
        if exports.admits(seen, wish.folder(node), node, facts)
        else f"; {server.name} does not export it to this node yet"
    )


def _decide_server(facts: NodeFacts, node: Node, fleet: Fleet, evidence: dict[str, Json]) -> Decision:
    path, folder = wish.path(node), wish.folder(node)
    wanted = exports.clients(node, folder, fleet, facts)
    evidence |= {"folder": folder, "clients": list(wanted)}
    if not wanted:
        return Decision(NAME, Status.NOT_APPLICABLE, "no other node shares the directory", evidence)
    found = exports.exported_to(facts, folder)
    missing = [address for address in wanted if address not in found]
    reasons = []
    if not facts.nfs.server_threads:
        hint = by_hand(facts, "it") if facts.nfs.server_threads is None else ""
        reasons.append(f"the NFS server is not running{hint}")
    elif missing:
        reasons.append(f"{folder} is not exported to {some(missing)}")
    elif not exports.is_written(facts, exports.line(folder, wanted, squash_root=wish.squashes(node, facts))):
        reasons.append(f"{exports.EXPORTS} differs from the inventory")
    if facts.nfs.server_threads and not facts.nfs.server_enabled:
        reasons.append(f"{SERVER_UNIT} is not started at boot")
    if path != folder:
        reasons += filter(None, [_binding_problem(facts, node)])
    warnings = tuple(f"{file} exports {folder} as well" for file in exports.elsewhere(facts, folder))
    if reasons:
        steps = _server_steps(facts, node, wanted)
        return Decision(NAME, Status.UNMET, "; ".join(reasons), evidence, warnings, steps, _no_step(facts))
    reason = f"{folder} is exported to {len(wanted)} addresses of the other nodes"
    return Decision(NAME, Status.MET, reason, evidence, warnings)


def _binding_problem(facts: NodeFacts, node: Node) -> str | None:
    """Return what is wrong with the server's bind mount of its directory at the shared path; None if nothing is."""
    path, folder = wish.path(node), wish.folder(node)
    found, origin = mounts.mounted_at(facts, path), mounts.below(facts, folder)
    if found is None:
        return f"{folder} is not mounted at {path}"
    if origin is not None and (found.source, found.fstype) != (origin.source, origin.fstype):
        return f"{found.source} ({found.fstype}) is mounted at {path}, not {folder}: unmount it first"
    return _unit_gap(facts, node, folder, remote=False)


def _client_steps(facts: NodeFacts, node: Node, fleet: Fleet, what: str, *, waits: bool) -> tuple[Step, ...]:
    """Return the steps that mount the directory, or only the package for it while the client ``waits``."""
    if not facts.system.systemd_running:
        return ()
    path = wish.path(node)
    mounted = mounts.mounted_at(facts, path)
    if mounted is not None:
        # While the mount is in use, only the units that mount it at boot can be changed.
        own = mounts.is_export(mounted, what, wish.server_addresses(node, fleet))
        healthy = facts.nfs.state_of(path) not in ("hung", "stale", "failed")
        return _unit_steps(facts, node, what, remote=True) if own and healthy else ()
    name = "nfs-common" if manager(facts) == "apt" else "nfs-utils"
    package = install(facts, node, f"Install {name}", name)
    found: list[Step] = [package] if package is not None else []
    if waits:
        return tuple(found)
    return (*found, *mounts.mount_point(path), *_unit_steps(facts, node, what, remote=True))


def _unit_steps(facts: NodeFacts, node: Node, what: str, *, remote: bool) -> tuple[Step, ...]:
    path = wish.path(node)
    name = mounts.unit_name(path)
    text = _unit_text(node, what, remote=remote)
    return (
        *(
            [
                WriteFile(
                    "Write the unit that waits until the server is reachable",
                    mounts.WAY_UNIT,
                    mounts.way_unit_text(),
                )
            ]
            if remote
            else []
        ),
        WriteFile(f"Write the unit {name}", f"{mounts.UNIT_FOLDER}/{name}", text),
        EnableUnit(f"Mount {what} at {path}, now and at boot", name),
    )


def _server_steps(facts: NodeFacts, node: Node, addresses: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the steps that export the directory to these addresses, now and at boot."""
    if not facts.system.systemd_running:
        return ()
    path, folder, login = wish.path(node), wish.folder(node), facts.ssh_mesh.login.value
    found: list[Step] = []
    if facts.nfs.server_threads is None:
        name = "nfs-kernel-server" if manager(facts) == "apt" else "nfs-utils"
        package = install(facts, node, f"Install {name}", name)
        found += [package] if package is not None else []
    found += mounts.owned_folder(folder, "root" if login is None else login.user)
    squash_root = wish.squashes(node, facts)
    if not facts.nfs.server_threads or not facts.nfs.server_enabled:
        found.append(EnableUnit(f"Enable and start {SERVER_UNIT}", SERVER_UNIT))
    found += exports.export_steps(facts, folder, addresses, squash_root=squash_root)
    line = exports.line(folder, addresses, squash_root=squash_root)
    found.append(
        WriteFile(f"Export {folder} to these addresses after each reboot", exports.EXPORTS, f"{line}\n")
    )
    if path != folder and mounts.mounted_at(facts, path) is None:
        found += mounts.mount_point(path)
        found += _unit_steps(facts, node, folder, remote=False)
    return tuple(found)
