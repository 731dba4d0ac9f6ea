"""Find what blocks mesh logins although clusterctl's files are correct: sshd settings, file modes, ssh_config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.fleet.addresses import literal, own_addresses
from clusterctl.text.openssh import reader

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
