"""Write the texts of ``ssh-mesh``: one entry per node in authorized_keys, known_hosts and ssh_config; pure.

The texts are the same on all nodes of a mesh and include the node itself: nodes that share a home directory do not
overwrite each other, and a launcher may start a rank on its own node by SSH.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.facts.subjects.ssh_mesh import FOLDER
from clusterctl.requirements.fleet.addresses import means_itself, reachable_address, source_addresses
from clusterctl.text.foreign import is_whole, whole
from clusterctl.text.grouping import grouped
from clusterctl.text.openssh import writer
from clusterctl.text.openssh.known_hosts import SSH_PORT, line

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.model.sharing import OwnText, SshMesh
    from clusterctl.inventory.model import Node

PREFERRED_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
NO_KEY = "no key yet"
_KEY = re.compile(r"(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp\d+) [A-Za-z0-9+/]+={0,2}")
_PLAIN_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_USER = re.compile(r"^  User (\S+)$", re.MULTILINE)
_HOSTS_PER_MATCH = 16


@dataclass(frozen=True, slots=True)
class MeshEntry:
    """One node's lines in the three files."""

    node: str
    authorized: str
    known: str
    config: str


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of the three files, each with a final newline."""

    authorized: str
    known: str
    config: str


def key_path(name: str, user: str) -> str:
    """Return the path of an account's private mesh key."""
    return f"{FOLDER}/{name}.{user}"


def known_hosts_path(name: str) -> str:
    """Return the file with the mesh's host keys."""
    return f"{FOLDER}/{name}.known_hosts"


def config_path(name: str) -> str:
    """Return the ssh_config drop-in of a mesh."""
    return f"/etc/ssh/ssh_config.d/50-clusterctl-{name}.conf"


def is_plain(user: str) -> bool:
    """Return whether an account's name can be used unquoted in ssh_config and in a file name."""
    return _PLAIN_USER.fullmatch(user) is not None


def public_key(facts: SshMesh, name: str) -> str | None:
    """Return ``type base64`` of the account's mesh key, or None when it has no key."""
    login = facts.login.value
    path = None if login is None else f"{key_path(name, login.user)}.pub"
    line = next((line.text for line in facts.keys if line.path == path), "")
    found = _KEY.match(line)
    return found[0] if found else None


def host_key(facts: SshMesh) -> str | None:
    """Return ``type base64`` of the host key to pin: the best kind that the server offers."""
    offered = {line.text for line in facts.sshd.or_else(()) if line.path == "hostkey"}
    found = {
        match[0].split()[0]: match[0]
        for line in facts.host_keys
        if (not offered or line.path.removesuffix(".pub") in offered) and (match := _KEY.match(line.text))
    }
    return next((found[kind] for kind in PREFERRED_KEYS if kind in found), None)


def port(node: Node, facts: SshMesh) -> int:
    """Return the port of the node's SSH server: the inventory's, or else the one in the server's settings.

    The inventory's port is ignored as a forwarded one if its address means the machine that runs clusterctl.
    """
    said = facts.setting("port") or ""
    forwarded = means_itself(node.address)
    return (None if forwarded else node.port) or (whole(said) if is_whole(said) else SSH_PORT)


def lacks(node: Node, facts: NodeFacts, name: str) -> str | None:
    """Return why a checked node cannot be entered in the other nodes' files; None when it can."""
    mesh = facts.ssh_mesh
    if mesh.login.value is None:
        return "its account is unknown"
    if not is_plain(mesh.login.value.user):
        return f"the account name {mesh.login.value.user!r} is not valid in ssh_config"
    if public_key(mesh, name) is None:
        return NO_KEY
    if host_key(mesh) is None:
        return "no host key of its SSH server was found in /etc/ssh"
    if reachable_address(node, facts) is None:
        return f"the address {node.address} is a loopback address, and no other address is known"
    settings = node.requirements.ssh_mesh
    if settings.keys_from_here and not (source_addresses(node, facts) or settings.also_from):
        return "addresses unknown: check that iproute2 is installed"
    return None


def entry(node: Node, facts: NodeFacts, name: str) -> MeshEntry:
    """Return the lines of a node for which ``lacks`` returns None."""
    mesh, settings = facts.ssh_mesh, node.requirements.ssh_mesh
    login, address, key = mesh.login.value, reachable_address(node, facts), host_key(mesh)
    assert login is not None and address is not None and key is not None
    options = ["restrict", *(["pty"] if settings.pty else [])]
    if settings.keys_from_here:
        options.append(f'from="{",".join((*source_addresses(node, facts), *settings.also_from))}"')
    return MeshEntry(
        node.name,
        f"{','.join(options)} {public_key(mesh, name)} clusterctl-{name}:{node.name}",
        line(key, node.name),
        writer.settings(
            (
                ("HostName", address),
                ("Port", str(port(node, mesh))),
                ("User", login.user),
                ("HostKeyAlias", node.name),
            )
        ),
    )


def patterns(node: Node, address: str | None) -> str:
    """Return the names that a launcher may use for a node, as a pattern list of ssh_config."""
    written = None if means_itself(node.address) else node.address.strip("[]")
    return ",".join(dict.fromkeys(filter(None, (node.name, written, address))))


def texts(user: str, name: str, members: Iterable[tuple[str, MeshEntry]]) -> Texts:
    """Combine entries; ``members`` are pairs of a pattern list and an entry.

    The texts affect only ``user``'s own ssh, and only logins as the mesh's account: ``ssh admin@NODE`` works as without
    a mesh. ``Match user`` compares the local account as long as no user is set (ssh_config(5)). So a node whose account
    has another name first gets a stanza that sets ``User``.
    """
    found = list(members)
    stanzas: list[str] = []
    by_account = grouped((_account(of, user), hosts) for hosts, of in found)
    for account, hosts_of in by_account.items():
        if account != user:
            stanzas += [f"{_match(user, user, few)}\n  User {account}" for few in _batches(hosts_of)]
    stanzas += [f"{_match(user, _account(of, user), [hosts])}\n{of.config}" for hosts, of in found]
    for account, hosts_of in by_account.items():
        stanzas += [f"{_match(user, account, few)}\n{_for_all(name)}" for few in _batches(hosts_of)]
    return Texts(
        "".join(f"{of.authorized}\n" for _, of in found),
        "".join(f"{of.known}\n" for _, of in found),
        "\n".join([*stanzas, "Match all", ""]),
    )


def _account(of: MeshEntry, user: str) -> str:
    said = _USER.search(of.config)
    return said[1] if said is not None else user


def _match(local: str, account: str, hosts: list[str]) -> str:
    return f"Match localuser {local} user {account} originalhost {','.join(hosts)}"


def _batches(hosts: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(hosts), _HOSTS_PER_MATCH):
        yield hosts[start : start + _HOSTS_PER_MATCH]


def _for_all(name: str) -> str:
    return writer.settings(
        (
            ("IdentityFile", key_path(name, "%u")),
            ("IdentitiesOnly", "yes"),
            ("PreferredAuthentications", "publickey"),
            ("UserKnownHostsFile", known_hosts_path(name)),
            ("GlobalKnownHostsFile", "/dev/null"),
            ("StrictHostKeyChecking", "yes"),
            ("UpdateHostKeys", "no"),
            ("ForwardAgent", "no"),
        )
    )


def begin(name: str) -> str:
    """Return the first line of a block: a file that several meshes share has one block for each mesh."""
    return f"# BEGIN clusterctl {name}\n"


def block(name: str, content: str) -> str:
    """Return a block with its first and last line, as it is in a file."""
    return f"{begin(name)}{content}# END clusterctl {name}\n"


def is_so(found: OwnText | None, wanted: str) -> bool:
    """Return whether clusterctl's part of a file is the wanted text; long parts are compared by SHA-256."""
    if found is None:
        return False
    if found.text is not None:
        return found.text == wanted
    return found.sha256 == hashlib.sha256(wanted.encode()).hexdigest()


def standing(authorized: str, known: str, config: str, name: str) -> Iterator[MeshEntry]:
    """Yield the entries in existing texts, for nodes not checked in this run; incomplete entries are left out."""
    keys = {text.rpartition(f" clusterctl-{name}:")[2]: text for text in authorized.split("\n")}
    hosts = {text.partition(" ")[0]: text for text in known.split("\n")}
    for found in re.finditer(r"(?:^  [A-Z]\w+ .*\n){3}^  HostKeyAlias (\S+)$", config, re.MULTILINE):
        if found[1] in keys and found[1] in hosts:
            yield MeshEntry(found[1], keys[found[1]], hosts[found[1]], found[0])


def named(authorized: str, name: str) -> set[str]:
    """Return the nodes whose keys are in a text of authorized_keys."""
    return set(re.findall(rf" clusterctl-{re.escape(name)}:(\S+)$", authorized, re.MULTILINE))
