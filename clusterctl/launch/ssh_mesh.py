"""How the launching node reaches its peers over SSH: ssh_config, known host keys, and the test of both.

No private key travels: the launching node uses keys that are its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.errors import LaunchError
from clusterctl.launch.base import LaunchPlan, Placement

CONFIG_FILE = "ssh_config"
KNOWN_HOSTS_FILE = "known_hosts"
_TRY = f"""
try() {{
  if said=$(ssh -F {CONFIG_FILE} "$2" true 2>&1 </dev/null); then
    printf 'ok\\t%s\\n' "$1"
  else
    printf 'bad\\t%s\\t%s\\n' "$1" "$(printf %s "$said" | tr '\\n\\t' '  ')"
  fi
}}
"""
_PLAIN = re.compile(r"^[A-Za-z0-9_./~:@+=-]+$")


def _plain(word: str, what: str) -> str:
    if not _PLAIN.match(word):
        raise LaunchError(f"{what} {word!r} cannot stand in an ssh_config", hint="use letters, digits, ./_-")
    return word


def config(plan: LaunchPlan) -> str:
    """Return the ssh_config for the launching node: one Host block per peer, and what holds for all."""
    known = (f"{plan.directory}/{KNOWN_HOSTS_FILE}", *plan.known_hosts, "~/.ssh/known_hosts")
    lines: list[str] = []
    for placement in plan.placements[1:]:
        lines.append(f"Host {_plain(placement.node, 'the node name')}")
        lines.append(f"  HostName {_plain(placement.address, 'the address')}")
        if placement.ssh_port is not None:
            lines.append(f"  Port {placement.ssh_port}")
        if placement.user is not None:
            lines.append(f"  User {_plain(placement.user, 'the user')}")
    lines.append("Host *")
    if plan.identity_file is not None:
        lines.append(f"  IdentityFile {_plain(plan.identity_file, 'the identity file')}")
    lines += [
        f"  UserKnownHostsFile {' '.join(_plain(path, 'the path') for path in known)}",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
        "  ConnectTimeout 10",
        "  ServerAliveInterval 10",
        "  ServerAliveCountMax 3",
        "  LogLevel ERROR",
    ]
    return "\n".join(lines) + "\n"


def known_hosts(placements: tuple[Placement, ...], keys: Mapping[str, tuple[str, ...]]) -> str:
    """Return known_hosts lines for the peers, from the keys that each showed over a verified connection."""
    lines = []
    for placement in placements:
        port = placement.ssh_port or 22
        name = placement.address if port == 22 else f"[{placement.address}]:{port}"
        lines += [f"{name} {key}" for key in keys.get(placement.node, ())]
    return "".join(f"{line}\n" for line in lines)


def probe(plan: LaunchPlan) -> str:
    """Return sh text that tries SSH from the launching node to all peers at once, a line of answer each."""
    lines = [f"cd {plan.directory} || exit 1", _TRY]
    for index, placement in enumerate(plan.placements[1:]):
        lines.append(f"try {index} {_plain(placement.node, 'the node name')} &")
    lines.append("wait")
    return "\n".join(lines) + "\n"


def memlock_probe(plan: LaunchPlan) -> str:
    """Return sh text that prints what a rank may lock on every node, by the very path on which mpirun starts it."""
    lines = [
        f"cd {plan.directory} || exit 1",
        f"printf '%s\\t%s\\n' {_plain(plan.placements[0].node, 'the node name')} \"$(ulimit -l)\"",
    ]
    for placement in plan.placements[1:]:
        name = _plain(placement.node, "the node name")
        lines.append(
            f"printf '%s\\t%s\\n' {name} \"$(ssh -F {CONFIG_FILE} {name} 'ulimit -l' 2>/dev/null </dev/null)\" &"
        )
    return "\n".join([*lines, "wait"]) + "\n"


def memlock_of(plan: LaunchPlan, answer: str) -> dict[str, str]:
    """Read that probe's answer: ``unlimited`` or KiB by node; a node that said neither is left out."""
    said = dict(line.split("\t") for line in answer.splitlines() if line.count("\t") == 1)
    found = {placement.node: said.get(placement.node, "").strip() for placement in plan.placements}
    return {node: limit for node, limit in found.items() if limit == "unlimited" or limit.isdigit()}


def faults(plan: LaunchPlan, answer: str) -> tuple[Fault, ...]:
    """Read the probe's answer: one fault for every peer that the launching node cannot reach."""
    peers = plan.placements[1:]
    launching = plan.placements[0].node
    said = {words[1]: words for line in answer.splitlines() if len(words := line.split("\t")) >= 2}
    found = []
    for index, peer in enumerate(peers):
        words = said.get(str(index), ["bad", "", "no answer"])
        if words[0] == "ok":
            continue
        reason = (words[2] if len(words) > 2 else "").strip() or "no reason given"
        found.append(
            Fault(
                FaultKind.MESH,
                f"{launching} cannot reach {peer.node} ({peer.address}) by SSH: {reason}",
                node=peer.node,
                hint=f"mpirun on {launching} needs key-based SSH to its peers: add {launching}'s public key "
                f"to authorized_keys on {peer.node}",
            )
        )
    return tuple(found)
