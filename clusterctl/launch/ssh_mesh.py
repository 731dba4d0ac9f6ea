"""Let the launching node reach its peers over SSH: ssh_config, known host keys, and a test of both.

No private key is copied: the launching node uses its own keys, those of the requirement ``ssh-mesh`` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.errors import LaunchError
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.requirements.fleet.ssh_mesh.texts import key_path, known_hosts_path
from clusterctl.text import foreign
from clusterctl.text.openssh import writer
from clusterctl.text.openssh.known_hosts import SSH_PORT, host_name, line
from clusterctl.text.typed_inventory import filled

CONFIG_FILE = "ssh_config"
KNOWN_HOSTS_FILE = "known_hosts"
# ssh offers these keys by itself only as long as no other one is configured (ssh_config(5), IdentityFile).
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_BREAK = "\x01"
_TRY = f"""
try() {{
  # Reads the memlock limit over the path on which mpirun starts ranks; a missing answer is not a fault.
  if said=$(ssh -F {CONFIG_FILE} "$2" 'sh -c "ulimit -l" 2>/dev/null; true' 2>&1 </dev/null); then
    printf 'ok\\t%s\\t%s\\n' "$1" "$(printf %s "$said" | tail -n 1)"
  else
    printf 'bad\\t%s\\t%s\\n' "$1" "$(printf %s "$said" | tail -n 40 | cut -c 1-400 | tr '\\n\\t' '\\001 ')"
  fi
}}
"""


class Mesh(NamedTuple):
    """Hold the result of the SSH test from the launching node to its peers, and their limits (``memlock_of``)."""

    faults: tuple[Fault, ...] = ()
    memlock: Mapping[str, str] = MappingProxyType({})


_PLAIN = re.compile(r"[A-Za-z0-9_./~:@+=-]+")
# Accounts of a directory service: CORP\alice, machine$.
_USER = re.compile(r"[A-Za-z0-9_.@+\\-]+[$]?")


def _plain(word: str, what: str, allowed: re.Pattern[str] = _PLAIN) -> str:
    if not allowed.fullmatch(word):
        raise LaunchError(
            f"{what} {word!r} has characters that ssh_config does not allow", hint="use letters, digits, ./_-"
        )
    return word


def files(plan: LaunchPlan) -> dict[str, bytes]:
    """Return the files with which the launching node reaches its peers, by name inside ``plan.directory``."""
    if len(plan.placements) < 2:
        return {}
    return {CONFIG_FILE: config(plan).encode(), KNOWN_HOSTS_FILE: known_hosts(plan).encode()}


def config(plan: LaunchPlan) -> str:
    """Return the ssh_config for the launching node: one Host block per peer, then the common settings."""
    known = [f"{plan.directory}/{KNOWN_HOSTS_FILE}"]
    known += [known_hosts_path(key.mesh) for key in plan.mesh_keys if key.readable]
    known += [*plan.known_hosts, "~/.ssh/known_hosts"]
    sections = [_section(placement, aliased=bool(plan.mesh_keys)) for placement in plan.placements[1:]]
    common = [("IdentityFile", _plain(path, "the identity file")) for path in _identities(plan)]
    common += [
        ("UserKnownHostsFile", " ".join(_plain(path, "the path") for path in known)),
        ("StrictHostKeyChecking", "yes"),
        ("BatchMode", "yes"),
        ("ConnectTimeout", "10"),
        ("ServerAliveInterval", "10"),
        ("ServerAliveCountMax", "3"),
        ("LogLevel", "ERROR"),
    ]
    return "\n".join((*sections, writer.section("Host *", common), ""))


def _identities(plan: LaunchPlan) -> Iterator[str]:
    """Yield the keys to offer, in this order; nothing if ssh's own choice is right."""
    mesh = [key_path(key.mesh, key.account) for key in plan.mesh_keys if key.readable]
    yield from mesh
    if plan.identity_file is not None:
        yield plan.identity_file
    elif mesh:
        # A peer outside the mesh may accept the account's own key, as without a mesh.
        yield from _DEFAULT_KEYS


def _section(placement: Placement, *, aliased: bool) -> str:
    settings = [("HostName", _plain(placement.address, "the address"))]
    if placement.ssh_port is not None:
        settings.append(("Port", str(placement.ssh_port)))
    if placement.user is not None:
        settings.append(("User", _plain(placement.user, "the user", _USER)))
    name = _plain(placement.node, "the node name")
    if aliased:
        # The mesh pins host keys under the nodes' names.
        settings.append(("HostKeyAlias", name))
    return writer.section(f"Host {name}", settings)


def known_hosts(plan: LaunchPlan) -> str:
    """Return known_hosts lines for the peers."""
    return "".join(
        f"{line(key, *_names(placement, aliased=bool(plan.mesh_keys)))}\n"
        for placement in plan.placements[1:]
        for key in placement.host_keys
    )


def _names(placement: Placement, *, aliased: bool) -> tuple[str, ...]:
    place = host_name(placement.address, placement.ssh_port or SSH_PORT)
    return (placement.node, place) if aliased else (place,)


def probe(plan: LaunchPlan) -> str:
    """Return sh text that tests SSH from the launching node to all peers in parallel, with a line of answer each."""
    lines = [f"cd {plan.directory} || exit 1", _TRY, "printf 'here\\t%s\\n' \"$(ulimit -l)\""]
    for index, placement in enumerate(plan.placements[1:]):
        lines.append(f"try {index} {_plain(placement.node, 'the node name')} &")
    lines.append("wait")
    return "\n".join(lines) + "\n"


def memlock_of(plan: LaunchPlan, answer: str) -> dict[str, str]:
    """Parse the memlock limits from the probe's answer: ``unlimited`` or KiB by node; malformed ones are omitted."""
    lines = [line.split("\t") for line in foreign.lines(answer)]
    said = {words[1]: words[2].strip() for words in lines if words[0] == "ok" and len(words) == 3}
    here = next((words[1].strip() for words in lines if words[0] == "here" and len(words) == 2), "")
    limits = [here, *(said.get(str(index), "") for index in range(len(plan.placements) - 1))]
    return {
        placement.node: limit
        for placement, limit in zip(plan.placements, limits, strict=True)
        if limit == "unlimited" or limit.isdecimal()
    }


def faults(plan: LaunchPlan, answer: str, *, required: bool = False) -> tuple[Fault, ...]:
    """Parse the probe's answer and return one fault for every peer that the launching node cannot reach.

    ``required``: the inventory does not switch ``ssh-mesh`` off by ``requirements.ssh_mesh.require``.
    """
    launching = plan.placements[0].node
    said = {words[1]: words for text in foreign.lines(answer) if len(words := text.split("\t")) >= 2}
    found = []
    for index, peer in enumerate(plan.placements[1:]):
        words = said.get(str(index), ["bad", "", "no answer"])
        if words[0] == "ok":
            continue
        reason, hint = _explained(plan, words[2] if len(words) > 2 else "", required=required)
        found.append(
            Fault(
                FaultKind.MESH,
                f"{launching} cannot reach {peer.node} ({peer.address}) by SSH: {reason}",
                node=peer.node,
                hint=hint,
            )
        )
    return tuple(found)


_OFFENDING = re.compile(r"^Offending (\S{1,40}) key in (.+)")
_LEADING = re.compile(r"^(?:ssh: connect to host \S{1,255} |[^\s@]{1,64}@[^\s:]{1,255}: )")
# In the order in which they explain each other: an ignored key also leads to "Permission denied".
_CAUSES = (
    ("key file", re.compile(r"^Permissions \S{1,20} for |bad permissions")),
    ("host key", re.compile(r"HOST IDENTIFICATION HAS CHANGED|host key is known for|Host key verification")),
    ("login", re.compile(r"Permission denied|Too many authentication failures")),
    ("name", re.compile(r"Could not resolve hostname")),
    ("path", re.compile(r"refused|timed out|[Nn]o route|unreachable|Connection (?:closed|reset)|no answer")),
    ("client", re.compile(r"ssh: (?:command )?not found|ssh: No such file")),
)


def _explained(plan: LaunchPlan, text: str, *, required: bool) -> tuple[str, str]:
    """Return the line of ssh's messages that tells what is wrong, and what to do about it."""
    # ssh frames its warnings with lines of @.
    lines = [line.strip("@ ") for line in text.split(_BREAK)]
    lines = [_LEADING.sub("", line, count=1) for line in lines if line]
    for cause, pattern in _CAUSES:
        line = next((line for line in lines if pattern.search(line)), None)
        if line is None:
            continue
        if cause == "host key" and (key := next(filter(None, map(_OFFENDING.search, lines)), None)):
            line = f"{line.removeprefix('WARNING: ')} ({key[1]} key in {key[2]})"
        return line, _hint(plan, cause, required=required)
    return (lines[-1] if lines else "ssh printed no reason"), _hint(plan, "", required=required)


def _hint(plan: LaunchPlan, cause: str, *, required: bool) -> str:
    """Return what to do; the text is the same for all peers."""
    launching = plan.placements[0].node
    bootstrap = filled("clusterctl bootstrap INVENTORY --only ssh-mesh")
    setting = "" if required else ", with requirements.ssh_mesh.require: true in the inventory"
    key = next((key_path(one.mesh, one.account) for one in plan.mesh_keys if one.readable), None)
    closed = next((key_path(one.mesh, one.account) for one in plan.mesh_keys if not one.readable), None)
    if cause == "login" and key is not None:
        return f"{launching}'s key {key} is not accepted there: run {bootstrap}{setting}, on all nodes of the launch"
    if cause == "login" and closed is not None:
        return (
            f"the account on {launching} cannot read its key {closed}: make it the key's owner, with mode 600"
        )
    if cause == "login":
        return f"{launching} starts ranks by SSH and needs a key for it: run {bootstrap}{setting}"
    return {
        "key file": f"ssh ignores a key that other users can read: make the file on {launching} mode 600",
        "host key": (
            "another SSH server than clusterctl's answers there, or the connection is intercepted: compare "
            f"ssh-keyscan on {launching} with the keys in /etc/ssh of the node"
        ),
        "name": f"set `address` in the inventory to an address, or to a name that {launching} resolves",
        "path": (
            f"check sshd and firewalls between the nodes; `socket_ifname` chooses the network on which {launching} "
            "reaches the others"
        ),
        "client": f"install OpenSSH's client on {launching}: {bootstrap}{setting}",
    }.get(cause, f"log in from {launching} by hand with ssh -v to see why")
