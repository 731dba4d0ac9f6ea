"""Find what blocks mesh logins although clusterctl's files are correct: sshd settings, file modes, ssh_config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.inventory.wildcards import like
from clusterctl.requirements.fleet.addresses import literal, own_addresses

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.sharing import Login, SshMesh
    from clusterctl.inventory.model import Node

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
                f"{path} sets {' '.join(line.text.split())} for nodes of the mesh, which takes precedence"
            )
    return tuple(dict.fromkeys(found))


def _speaks_of(patterns: list[str], host: str) -> bool:
    if any(like(host, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(like(host, pattern) for pattern in patterns)


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
