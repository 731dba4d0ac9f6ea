"""What would keep mesh logins out although every file is right: the server's settings, open folders, ssh_config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.inventory.wildcards import like
from clusterctl.requirements.addresses import literal, own_addresses

if TYPE_CHECKING:
    from clusterctl.facts.model import Login, NodeFacts, SshMesh
    from clusterctl.inventory.model import Node

_OVERRULING = (
    *("hostname", "port", "user", "proxyjump", "proxycommand", "hostkeyalias"),
    *("userknownhostsfile", "stricthostkeychecking", "preferredauthentications"),
)


def refusals(facts: SshMesh, login: Login) -> tuple[str, ...]:
    """Return why the node's SSH server would not accept the keys; what is not known is no reason."""
    found: list[str] = []
    if facts.setting("pubkeyauthentication") == "no":
        found.append("sshd accepts no keys (PubkeyAuthentication no)")
    if facts.authorized_keys == "none":
        found.append("sshd looks for keys in no file (AuthorizedKeysFile none)")
    methods = facts.setting("authenticationmethods") or "any"
    if methods != "any" and "publickey" not in methods.split():
        found.append(f"a key alone is not enough for sshd (AuthenticationMethods {methods})")
    root = facts.setting("permitrootlogin")
    if login.user == "root" and root in ("no", "forced-commands-only"):
        found.append(f"sshd does not let root in (PermitRootLogin {root})")
    for path in facts.modes if facts.setting("strictmodes") != "no" else ():
        by_others = path.writable_by_others(facts.own_group)
        if by_others or path.uid not in (0, login.uid):
            said = "writable by others" if by_others else "not its user's"
            found.append(f"{path.path} is {said} ({path.mode}): sshd ignores keys below it (StrictModes)")
    return tuple(found)


def overrulings(facts: SshMesh, login: Login, members: tuple[Node, ...]) -> tuple[str, ...]:
    """Return lines of the user's own ssh_config that are read first and speak of these nodes."""
    path = f"{login.home.rstrip('/')}/.ssh/config"
    lines = [line for line in facts.client if line.path == path]
    hosts = [word for other in members for word in (other.name, other.address)] if lines else []
    concerned, found = True, []
    for line in lines:
        word, _, rest = line.text.replace("=", " ", 1).partition(" ")
        if word.lower() == "host":
            concerned = any(_speaks_of(rest.split(), host) for host in hosts)
        elif word.lower() == "match":
            concerned = rest.strip().lower() == "all"
        elif concerned and word.lower() in _OVERRULING:
            found.append(
                f"{path} says {' '.join(line.text.split())} for nodes of the mesh, and is read first"
            )
    return tuple(dict.fromkeys(found))


def _speaks_of(patterns: list[str], host: str) -> bool:
    if any(like(host, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(like(host, pattern) for pattern in patterns)


def doubts(node: Node, facts: NodeFacts, members: tuple[Node, ...]) -> tuple[str, ...]:
    """Return what the facts cannot settle: translated addresses, bastions, settings that need root."""
    found: list[str] = []
    address, own = literal(node.address), own_addresses(facts)
    if address is not None and not address.is_loopback and own and str(address) not in own:
        found.append(
            f"{node.address} is none of the node's own addresses: the other nodes may not reach it there"
        )
    bastions = {other.proxy_jump for other in members}
    if len(bastions) > 1:
        found.append(
            "the inventory reaches the nodes by different ways (proxy_jump); among themselves they go straight"
        )
    mesh = facts.ssh_mesh
    if mesh.keys and mesh.sshd.value is None:
        found.append(f"what sshd allows is not known: {mesh.sshd.detail}")
    users = mesh.setting("allowusers")
    if users is not None and "@" in users:
        found.append(f"sshd lets in by address (AllowUsers {users}): see that the nodes' are among them")
    return tuple(found)
