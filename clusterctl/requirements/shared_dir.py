"""``shared-dir``: one folder at one path on all nodes, exported by one of them over NFS, or by a server that exists.

The server exports first; the others mount in the next round, when its exports have been seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.nfs import PATIENCE_S
from clusterctl.requirements import shared_dir_export as exports
from clusterctl.requirements import shared_dir_mount as mounts
from clusterctl.requirements import shared_dir_wish as wish
from clusterctl.requirements.base import EnableUnit, Json, Status, Step, Verdict, WriteFile
from clusterctl.requirements.packages import install, manager
from clusterctl.requirements.wording import because, some

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet import Fleet

NAME = "shared-dir"
TITLE = "All nodes share a folder"
READS = frozenset({"network", "nfs", "software", "ssh_mesh", "storage", "system"})

SERVER_UNIT = "nfs-server.service"


def judge(facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
    """Met when the very folder is at its path and answers, and, on the server, the nodes may mount it."""
    if node.requirements.shared_dir.path is None:
        return Verdict(NAME, Status.NOT_APPLICABLE, "the inventory wants no shared folder")
    if facts.in_container:
        return Verdict(
            NAME, Status.NOT_APPLICABLE, "this is a container: what it mounts is its host's affair"
        )
    wrong = wish.contradiction(node, fleet)
    if wrong is not None:
        return Verdict(NAME, Status.UNMET, wrong)
    if facts.storage.mounts.value is None:
        return Verdict(NAME, Status.UNKNOWN, because("the list of mounts", facts.storage.mounts))
    path, folder = wish.path(node), wish.folder(node)
    evidence: dict[str, Json] = {"path": path}
    waiting = _waiting(facts, node)
    if waiting is not None:
        if facts.nfs.state_of(waiting) in ("hung", "failed"):
            reason = (
                f"the automount at {waiting} brought nothing: systemctl status '{mounts.unit_name(waiting)}'"
            )
            return Verdict(NAME, Status.UNMET, reason, evidence)
        reason = f"an automount waits at {waiting}, and what it will mount is not known: run ls {path} and check again"
        return Verdict(NAME, Status.UNKNOWN, reason, evidence)
    if wish.is_server(node):
        return _judge_server(facts, node, fleet, evidence)
    what = wish.what(node, fleet)
    warnings = wish.numbers(node, facts, fleet)
    evidence["export"] = what
    problem = _mount_problem(facts, node, fleet, what)
    if problem is None:
        return Verdict(NAME, Status.MET, f"{what} is mounted at {path} and answers", evidence, warnings)
    if mounts.mounted_at(facts, path) is None:
        problem += _waits(facts, node, fleet, folder)
    return Verdict(NAME, Status.UNMET, problem, evidence, warnings)


def _waiting(facts: NodeFacts, node: Node) -> str | None:
    """Return the site's own automount that is to bring the folder; what a server exports is there by itself."""
    if wish.is_server(node) and wish.path(node) == wish.folder(node):
        return None
    return mounts.automount_waiting(facts, wish.path(node))


def _mount_problem(facts: NodeFacts, node: Node, fleet: Fleet, what: str | None) -> str | None:
    """Say what is wrong with a client's mount; None when it is right."""
    path = wish.path(node)
    if what is None:
        return "no address of the server is known to the other nodes"
    found = mounts.mounted_at(facts, path)
    if found is None:
        return f"{what} is not mounted at {path}"
    if not mounts.is_export(found, what, wish.server_addresses(node, fleet)):
        return f"{found.source} ({found.fstype}) is mounted at {path}, not {what}: unmount it first"
    state = facts.nfs.state_of(path)
    unit = mounts.unit_name(path)
    if state == "hung":
        return (
            f"{what} at {path} did not answer for {PATIENCE_S} s: see that its server runs and can be reached"
        )
    if state in ("stale", "failed"):
        word = "is stale" if state == "stale" else "answers with an error"
        return f"{what} at {path} {word}: umount -l {path}, then systemctl restart '{unit}'"
    return _unit_gap(facts, node, what, remote=True)


def _unit_gap(facts: NodeFacts, node: Node, what: str, *, remote: bool) -> str | None:
    """Say what is missing of clusterctl's own unit where part of it is there; a site's own fstab is fine."""
    name = mounts.unit_name(wish.path(node))
    unit = facts.nfs.unit(name)
    if unit is None:
        return None
    text = _unit_text(node, what, remote=remote)
    if not mounts.is_unit(unit, text):
        return f"{name} does not say what the inventory says"
    return None if unit.enabled else f"{name} is not started at boot"


def _unit_text(node: Node, what: str, *, remote: bool) -> str:
    settings = node.requirements.shared_dir
    options = mounts.options(settings.options, own_server=settings.export is None) if remote else mounts.BIND
    return mounts.unit_text(what, wish.path(node), options)


def _waits(facts: NodeFacts, node: Node, fleet: Fleet, folder: str) -> str:
    """Say for what a client must wait; empty when nothing keeps it from mounting."""
    server = wish.server(node, fleet)
    if node.requirements.shared_dir.export is not None or server is None:
        return ""
    seen = fleet.facts.get(server.name)
    if seen is None:
        return f"; its server {server.name} is not seen now"
    return (
        "" if exports.admits(seen, folder, node, facts) else f"; {server.name} does not export it to here yet"
    )


def _judge_server(facts: NodeFacts, node: Node, fleet: Fleet, evidence: dict[str, Json]) -> Verdict:
    path, folder = wish.path(node), wish.folder(node)
    wanted = exports.clients(node, folder, fleet, facts)
    evidence |= {"folder": folder, "clients": list(wanted)}
    if not wanted:
        return Verdict(NAME, Status.NOT_APPLICABLE, "no other node shares the folder", evidence)
    found = exports.exported_to(facts, folder)
    missing = [address for address in wanted if address not in found]
    reasons = []
    if not facts.nfs.server_threads:
        reasons.append("no NFS server runs")
    elif missing:
        reasons.append(f"{folder} is not exported to {some(missing)}")
    elif not exports.is_written(facts, exports.line(folder, wanted, squash_root=wish.squashes(node, facts))):
        reasons.append(f"{exports.EXPORTS} does not say what the inventory says")
    if facts.nfs.server_threads and not facts.nfs.server_enabled:
        reasons.append(f"{SERVER_UNIT} is not started at boot")
    if path != folder:
        reasons += filter(None, [_binding_problem(facts, node)])
    warnings = tuple(f"{file} exports {folder} as well" for file in exports.elsewhere(facts, folder))
    if reasons:
        return Verdict(NAME, Status.UNMET, "; ".join(reasons), evidence, warnings)
    reason = f"{folder} is exported to {len(wanted)} addresses of the other nodes"
    return Verdict(NAME, Status.MET, reason, evidence, warnings)


def _binding_problem(facts: NodeFacts, node: Node) -> str | None:
    """Say what is wrong with the server's own view of its folder at the shared path."""
    path, folder = wish.path(node), wish.folder(node)
    found, origin = mounts.mounted_at(facts, path), mounts.below(facts, folder)
    if found is None:
        return f"{folder} is not to be seen at {path}"
    if origin is not None and (found.source, found.fstype) != (origin.source, origin.fstype):
        return f"{found.source} ({found.fstype}) is mounted at {path}, not {folder}: unmount it first"
    return _unit_gap(facts, node, folder, remote=False)


def steps(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
    """Export on the server; mount on the others, once the server has been seen to export to them."""
    if judge(facts, node, fleet).status is not Status.UNMET or wish.contradiction(node, fleet) is not None:
        return ()
    if not facts.system.systemd_running or _waiting(facts, node) is not None:
        return ()
    if wish.is_server(node):
        return _server_steps(facts, node, fleet)
    what, path = wish.what(node, fleet), wish.path(node)
    mounted = mounts.mounted_at(facts, path)
    if what is None:
        return ()
    if mounted is not None:
        # Only what starts it at boot can be put right under a mount in use.
        own = mounts.is_export(mounted, what, wish.server_addresses(node, fleet))
        healthy = facts.nfs.state_of(path) not in ("hung", "stale", "failed")
        return _unit_steps(facts, node, what, remote=True) if own and healthy else ()
    name = "nfs-common" if manager(facts) == "apt" else "nfs-utils"
    package = install(facts, node, f"Install {name}", name)
    found: list[Step] = [package] if package is not None else []
    if _waits(facts, node, fleet, wish.folder(node)):
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
                    "Write the unit that waits for a way to the server",
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


def _server_steps(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
    path, folder, login = wish.path(node), wish.folder(node), facts.ssh_mesh.login.value
    addresses = exports.clients(node, folder, fleet, facts)
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
    found.append(WriteFile(f"Export {folder} to these after a reboot too", exports.EXPORTS, f"{line}\n"))
    if path != folder and mounts.mounted_at(facts, path) is None:
        found += mounts.mount_point(path)
        found += _unit_steps(facts, node, folder, remote=False)
    return tuple(found)
