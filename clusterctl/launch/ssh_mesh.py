"""Let the launching node reach its peers over SSH: ssh_config, known host keys, and a test of both.

No private key is copied: the launching node uses its own keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.errors import LaunchError
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.ssh_text import writer
from clusterctl.ssh_text.known_hosts import SSH_PORT, host_name, line

CONFIG_FILE = "ssh_config"
KNOWN_HOSTS_FILE = "known_hosts"
_TRY = f"""
try() {{
  # Reads the memlock limit over the path on which mpirun starts ranks; a missing answer is not a fault.
  if said=$(ssh -F {CONFIG_FILE} "$2" 'sh -c "ulimit -l" 2>/dev/null; true' 2>&1 </dev/null); then
    printf 'ok\\t%s\\t%s\\n' "$1" "$(printf %s "$said" | tail -n 1)"
  else
    printf 'bad\\t%s\\t%s\\n' "$1" "$(printf %s "$said" | tr '\\n\\t' '  ')"
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


def config(plan: LaunchPlan) -> str:
    """Return the ssh_config for the launching node: one Host block per peer, then the common settings."""
    known = (f"{plan.directory}/{KNOWN_HOSTS_FILE}", *plan.known_hosts, "~/.ssh/known_hosts")
    sections = [_section(placement) for placement in plan.placements[1:]]
    common = (
        []
        if plan.identity_file is None
        else [("IdentityFile", _plain(plan.identity_file, "the identity file"))]
    )
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


def _section(placement: Placement) -> str:
    settings = [("HostName", _plain(placement.address, "the address"))]
    if placement.ssh_port is not None:
        settings.append(("Port", str(placement.ssh_port)))
    if placement.user is not None:
        settings.append(("User", _plain(placement.user, "the user", _USER)))
    return writer.section(f"Host {_plain(placement.node, 'the node name')}", settings)


def known_hosts(placements: tuple[Placement, ...], keys: Mapping[str, tuple[str, ...]]) -> str:
    """Return known_hosts lines for the peers, with the keys that each peer reported over a verified connection."""
    return "".join(
        f"{line(key, host_name(placement.address, placement.ssh_port or SSH_PORT))}\n"
        for placement in placements
        for key in keys.get(placement.node, ())
    )


def probe(plan: LaunchPlan) -> str:
    """Return sh text that tests SSH from the launching node to all peers in parallel, with a line of answer each."""
    lines = [f"cd {plan.directory} || exit 1", _TRY, "printf 'here\\t%s\\n' \"$(ulimit -l)\""]
    for index, placement in enumerate(plan.placements[1:]):
        lines.append(f"try {index} {_plain(placement.node, 'the node name')} &")
    lines.append("wait")
    return "\n".join(lines) + "\n"


def memlock_of(plan: LaunchPlan, answer: str) -> dict[str, str]:
    """Parse the memlock limits from the probe's answer: ``unlimited`` or KiB by node; malformed ones are omitted."""
    lines = [line.split("\t") for line in answer.splitlines()]
    said = {words[1]: words[2].strip() for words in lines if words[0] == "ok" and len(words) == 3}
    here = next((words[1].strip() for words in lines if words[0] == "here" and len(words) == 2), "")
    limits = [here, *(said.get(str(index), "") for index in range(len(plan.placements) - 1))]
    return {
        placement.node: limit
        for placement, limit in zip(plan.placements, limits, strict=True)
        if limit == "unlimited" or limit.isdecimal()
    }


def faults(plan: LaunchPlan, answer: str) -> tuple[Fault, ...]:
    """Parse the probe's answer and return one fault for every peer that the launching node cannot reach."""
    peers = plan.placements[1:]
    launching = plan.placements[0].node
    said = {words[1]: words for line in answer.splitlines() if len(words := line.split("\t")) >= 2}
    found = []
    for index, peer in enumerate(peers):
        words = said.get(str(index), ["bad", "", "no answer"])
        if words[0] == "ok":
            continue
        reason = (words[2] if len(words) > 2 else "").strip() or "ssh printed no reason"
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
