"""``ssh-mesh``: each node can log in to each other node without a password, with least rights and pinned host keys.

Each node makes a key whose private half never leaves the node. When all public halves are known, the next round
writes which logins are allowed from which addresses, and pins the host keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl import resources
from clusterctl.inventory import nodeset
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status, switched_off
from clusterctl.requirements.fleet.addresses import literal, own_addresses
from clusterctl.requirements.fleet.ssh_mesh import texts as files
from clusterctl.requirements.fleet.ssh_mesh.need import (
    Need,
    block_name,
    members,
    need_of,
    uses_drop_ins,
    whole,
)
from clusterctl.requirements.packages import by_hand, install, manager
from clusterctl.requirements.steps import Command, WriteBlock, WriteFile
from clusterctl.requirements.wording import because
from clusterctl.text.grouping import grouped
from clusterctl.text.openssh import reader
from clusterctl.text.openssh.known_hosts import fingerprint
from clusterctl.text.wording import counted, some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.sharing import Login, SshMesh
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet


NAME = "ssh-mesh"
TITLE = "Nodes can log in to each other"
READS = frozenset({"network", "software", "ssh_mesh", "system"})
ABOUT = About(
    checks="with several nodes: they can log in to each other, with keys of their own and pinned host keys",
    why=(
        "launchers such as mpirun start ranks by SSH from one node on the others, without a password and "
        "without a host key prompt"
    ),
    bootstrap="makes keys, and writes marked blocks into SSH files of the account",
    undo="removes the keys and the marked blocks",
    settings=("requirements.ssh_mesh",),
)


def _stands(mesh: SshMesh, path: str, block: str, content: str) -> bool:
    """Return whether a file has the block with this content."""
    wanted = files.block(block, content)
    return any(files.is_so(own, wanted) for own in mesh.own_texts(path, files.begin(block)))


def _gone(facts: NodeFacts, node: Node, members: tuple[Node, ...]) -> list[str]:
    """Return the nodes that left the inventory but can still log in."""
    mesh, name = facts.ssh_mesh, node.requirements.ssh_mesh.name
    keys = mesh.own_text(mesh.authorized_keys, files.begin(block_name(node)))
    return sorted(files.named((keys and keys.text) or "", name) - {other.name for other in members})


def _changes(facts: NodeFacts, node: Node, login: Login, need: Need) -> tuple[WriteFile | WriteBlock, ...]:
    """Return the steps for files that must change, in the order in which they are needed."""
    name, mesh, block = node.requirements.ssh_mesh.name, facts.ssh_mesh, block_name(node)
    nodes = counted(need.size, "node")
    found: list[WriteFile | WriteBlock] = []
    known = files.known_hosts_path(name)
    if not files.is_so(mesh.own_text(known), need.texts.known):
        found.append(WriteFile(f"Pin the host keys of {nodes} in {known}", known, need.texts.known))
    if uses_drop_ins(facts):
        path = files.config_path(name)
        if not files.is_so(mesh.own_text(path), need.texts.config):
            found.append(WriteFile(f"Configure ssh for {nodes} in {path}", path, need.texts.config))
    else:
        path = "/etc/ssh/ssh_config"
        if not _stands(mesh, path, block, need.texts.config):
            found.append(WriteBlock(f"Configure ssh for {nodes} in {path}", path, block, need.texts.config))
    path = mesh.authorized_keys
    if not _stands(mesh, path, block, need.texts.authorized):
        at_home = path.startswith(f"{login.home.rstrip('/')}/")
        found.append(
            WriteBlock(
                f"Allow logins of {nodes} as {login.user} in {path}",
                path,
                block,
                need.texts.authorized,
                0o600 if at_home else 0o644,
                login.user if at_home else None,
            )
        )
    return tuple(found)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when the node has a key, and its files have exactly the entries that the mesh needs.

    The steps make the node's key, or write its files after the other nodes' keys are known.
    """
    if node.requirements.ssh_mesh.require is False:
        return switched_off(NAME, "requirements.ssh_mesh.require")
    name = node.requirements.ssh_mesh.name
    fleet = whole(facts, node, fleet)
    others = members(fleet, name)
    if len(others) < 2 and not _gone(facts, node, others):
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory has no other node to log in to")
    mesh, login = facts.ssh_mesh, facts.ssh_mesh.login.value
    if login is None:
        return Decision(NAME, Status.UNKNOWN, because("the node's account", mesh.login))
    evidence: dict[str, Json] = {"user": login.user, "nodes": len(others)}
    if not files.is_plain(login.user):
        reason = (
            f"the account name {login.user!r} is not valid in ssh_config: use letters, digits and ._@- only"
        )
        return Decision(NAME, Status.UNMET, reason, evidence)
    warnings = doubts(node, facts, others)
    if "ssh" not in mesh.tools or "ssh-keygen" not in mesh.tools:
        reason = f"OpenSSH's client is not installed{by_hand(facts, 'it')}"
        names = ("openssh-client",) if manager(facts) == "apt" else ("openssh-clients", "openssh")
        package = install(facts, node, f"Install {' and '.join(names)}", *names)
        steps = (package, _make_key(node, login.user)) if package is not None else ()
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, steps)
    own = files.public_key(mesh, name)
    if own is None:
        reason = f"{login.user} has no key for the other nodes yet"
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, (_make_key(node, login.user),))
    evidence["key"] = fingerprint(own.split()[1])
    refused = refusals(mesh, login)
    if refused:
        return Decision(NAME, Status.UNMET, "; ".join(refused), evidence, warnings)
    need = need_of(facts, node, fleet, login.user)
    evidence |= {"entries": need.size, "kept": list(need.kept)}
    warnings += overrulings(mesh, login, others)
    reasons = []
    changes = _changes(facts, node, login, need)
    if need.lost and changes:
        reasons.append(
            f"{nodeset.fold(need.lost)} not checked in this run, and the files are too long to keep the existing "
            "entries: check all nodes together once"
        )
    elif changes and need.size < 2:
        reasons += ["no other node has a key yet"] if len(others) > 1 else []
    elif changes:
        paths = some([step.path for step in changes])
        reasons.append(f"missing or outdated entries for the {need.size} nodes: {paths}")
    if need.waiting:
        waiting = [f"{nodeset.fold(names)} ({why})" for why, names in grouped(need.waiting).items()]
        reasons.append(f"waiting for {', '.join(waiting)}")
    gone = _gone(facts, node, others) if changes else []
    if gone:
        reasons.append(f"{nodeset.fold(gone)} left the inventory, but can still log in")
    if reasons:
        possible = not need.lost and (need.size > 1 or bool(gone))
        now = changes if possible else ()
        # Steps on other nodes make their keys; then this node's files can be written.
        is_later = not now and any(why == files.NO_KEY for why, _ in need.waiting)
        return Decision(
            NAME,
            Status.UNMET,
            "; ".join(reasons),
            evidence,
            warnings,
            now,
            follows=NAME if is_later else "",
        )
    unseen = f" ({nodeset.fold(need.kept)} not checked in this run)" if need.kept else ""
    return Decision(
        NAME, Status.MET, f"{need.size} nodes can log in to each other{unseen}", evidence, warnings
    )


def _make_key(node: Node, user: str) -> Command:
    name = node.requirements.ssh_mesh.name
    script, key = resources.text("templates", "apply", "ssh-mesh-key.sh"), files.key_path(name, user)
    comment = f"clusterctl-{name}:{node.name}"

    def run(action: str) -> tuple[str, ...]:
        return ("sh", "-c", script, f"{NAME}-key", action, key, user, comment)

    return Command(
        f"Make a key for {user}'s logins to the other nodes: {key}",
        run("make"),
        undo=run("remove"),
        guard=run("check"),
        timeout_s=60.0,
    )


_OVERRULING = (
    *("hostname", "port", "user", "proxyjump", "proxycommand", "hostkeyalias"),
    *("userknownhostsfile", "stricthostkeychecking", "preferredauthentications"),
)


def refusals(facts: SshMesh, login: Login) -> tuple[str, ...]:
    """Return the known reasons why the node's SSH server would reject the keys."""
    found: list[str] = []
    if facts.setting("pubkeyauthentication") == "no":
        found.append("sshd does not accept keys (PubkeyAuthentication no)")
    if facts.authorized_keys == "none":
        found.append("sshd does not read a file of keys (AuthorizedKeysFile none)")
    methods = facts.setting("authenticationmethods") or "any"
    if methods != "any" and "publickey" not in methods.split():
        found.append(f"sshd requires more than a key (AuthenticationMethods {methods})")
    root = facts.setting("permitrootlogin")
    if login.user == "root" and root in ("no", "forced-commands-only"):
        found.append(f"sshd refuses logins as root (PermitRootLogin {root})")
    for path in facts.modes if facts.setting("strictmodes") != "no" else ():
        by_others = path.writable_by_others(facts.own_group)
        if by_others or path.uid not in (0, login.uid):
            said = "writable by other users" if by_others else "owned by another user"
            found.append(f"{path.path} is {said} ({path.mode}): sshd ignores keys below it (StrictModes)")
    return tuple(found)


def overrulings(facts: SshMesh, login: Login, members: tuple[Node, ...]) -> tuple[str, ...]:
    """Return warnings about lines of the user's own ssh_config that override the mesh's for these nodes."""
    path = f"{login.home.rstrip('/')}/.ssh/config"
    config = reader.Config()
    config.add(path, "\n".join(line.text for line in facts.client if line.path == path))
    hosts = [word for other in members for word in (other.name, other.address)] if config.sections else []
    found = []
    for section in config.sections:
        settings = [line for line in section.settings if line.key in _OVERRULING]
        # Of Match, only `Match all` can be judged without a login.
        judged = section.match is None or not section.criteria
        if settings and judged and any(reader.names_host(section.criteria, host) for host in hosts):
            found += settings
    return tuple(
        dict.fromkeys(
            f"{path} sets {line.text} for nodes of the mesh, which takes precedence" for line in found
        )
    )


def doubts(node: Node, facts: NodeFacts, members: tuple[Node, ...]) -> tuple[str, ...]:
    """Return warnings about what the facts do not show: translated addresses, bastions, settings only root can read."""
    found: list[str] = []
    address, own = literal(node.address), own_addresses(facts)
    if address is not None and not address.is_loopback and own and str(address) not in own:
        found.append(
            f"{node.address} is not one of the node's own addresses: the other nodes may not reach it there"
        )
    bastions = {other.proxy_jump for other in members}
    if len(bastions) > 1:
        found.append("the inventory uses different proxy_jump hosts; between nodes, connections go directly")
    mesh = facts.ssh_mesh
    if mesh.keys and mesh.sshd.value is None:
        found.append(f"sshd's settings are unknown: {mesh.sshd.detail}")
    users = mesh.setting("allowusers")
    if users is not None and "@" in users:
        found.append(
            f"sshd allows logins by address (AllowUsers {users}): check that it includes the nodes' addresses"
        )
    return tuple(found)
