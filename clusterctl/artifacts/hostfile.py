"""Render hostfiles of Open MPI and MPICH, and find mistakes in them that launchers silently ignore."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from clusterctl.errors import ArtifactError

_KEYS = ("slots", "max_slots", "max-slots", "slots_max", "slots-max", "count", "cpu", "username")
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_WORD = re.compile(r"([^\s=]+)(\s*=\s*(\S*))?")


class Dialect(str, Enum):
    """Hostfile format."""

    OPENMPI = "openmpi"
    """``host slots=8``"""
    MPICH = "mpich"
    """``host:8``, for -f of Hydra; Intel MPI uses the same."""


@dataclass(frozen=True, slots=True)
class HostfileProblem:
    """Hold a line number of a hostfile (from 1; 0: the whole file) and what is wrong with it."""

    line: int
    message: str


def render(
    hosts: Sequence[tuple[str, int]],
    *,
    dialect: Dialect = Dialect.OPENMPI,
    addresses: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> str:
    """Return a hostfile for (name, slots) in the order that ranks fill them.

    With ``addresses`` (name -> address) Open MPI's lines read ``ADDRESS NAME slots=N``: the launcher connects
    to the address, and the name informs the reader; Open MPI 4 silently skips a bare second word. Raise ArtifactError
    without hosts or for a host without slots.
    """
    if not hosts:
        raise ArtifactError("a hostfile needs at least one host", hint="widen --limit")
    lines = [f"# {text}" for text in (comment or "").splitlines()]
    for name, slots in hosts:
        if slots < 1:
            raise ArtifactError(f"{name} has {slots} slots", hint="exclude the node, or set its `slots`")
        address = name if addresses is None else addresses.get(name, name)
        if dialect is Dialect.MPICH:
            if ":" in address:
                raise ArtifactError(
                    f"MPICH takes the text after ':' in {address!r} for a count",
                    hint="use the node's name instead",
                )
            lines.append(f"{address}:{slots}")
        elif address == name:
            lines.append(f"{name} slots={slots}")
        else:
            lines.append(f"{address} {name} slots={slots}")
    return "\n".join(lines) + "\n"


def lint(text: str, dialect: Dialect = Dialect.OPENMPI) -> tuple[HostfileProblem, ...]:
    """Return the lines that the launcher would misread.

    Open MPI ignores unknown words and then counts the host's cores, or fails with the number of a token (nccl-tests
    issues 329 and 102; tested with Open MPI 4.1.4).
    """
    check = _lint_openmpi if dialect is Dialect.OPENMPI else _lint_mpich
    findings: list[HostfileProblem] = []
    seen: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        content = raw.split("#", 1)[0].strip()
        if not content:
            continue
        host = content.split()[0]
        if dialect is Dialect.MPICH:
            host = host.split(":", 1)[0]
        if host in seen:
            findings.append(
                HostfileProblem(number, f"{host} is already on line {seen[host]}: their slots add up")
            )
        seen.setdefault(host, number)
        findings += [HostfileProblem(number, message) for message in check(content)]
    if not seen:
        findings.append(HostfileProblem(0, "the file has no host"))
    return tuple(findings)


def _lint_openmpi(content: str) -> list[str]:
    host, *after = content.split(None, 1)
    rest = after[0] if after else ""
    messages = []
    if host.count(":") == 1:  # two or more: an IPv6 address
        messages.append(f"{host!r}: a hostfile cannot have ports or counts after ':'; use 'host slots=N'")
    keys = []
    for position, (key, assignment, value) in enumerate(_WORD.findall(rest)):
        if position == 0 and not assignment and _is_address(host) and _is_name(key):
            continue  # what --addresses writes: the name of the address, for the reader
        keys.append(key)
        if key == "slot":
            messages.append("'slot' is for rankfiles; did you mean slots?")
        elif not assignment:
            separator = re.match(r"(\w+)[:]", key)
            meant = f"; did you mean {separator[1]}=?" if separator and separator[1] in _KEYS else ""
            messages.append(f"{key!r} is ignored: only the first word of a line is a host{meant}")
        elif key not in _KEYS:
            close = get_close_matches(key.lower(), _KEYS, n=1)
            messages.append(f"unknown key {key!r}" + (f"; did you mean {close[0]}?" if close else ""))
        elif key != "username" and not re.fullmatch("[0-9]+", value):
            messages.append(f"{key}={value}: expected a whole number")
    if not {"slots", "count", "cpu"} & set(keys):
        extra = ", and max slots do not change that" if any("max" in key for key in keys) else ""
        messages.append(f"no slots=N: the host's cores are counted instead{extra}")
    return messages


def _is_name(word: str) -> bool:
    """Return whether a word may be a node's name: not a number of slots, nor a key without its value."""
    return word not in _KEYS and _NAME.fullmatch(word) is not None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _lint_mpich(content: str) -> list[str]:
    words = content.split()
    messages = []
    _, colon, count = words[0].partition(":")
    if any(word.startswith(("slots", "slot", "max")) for word in words[1:]):
        messages.append("'slots=' is Open MPI's; MPICH reads 'host:N'")
    if not colon:
        messages.append("no ':N': one rank per turn is placed here")
    elif not re.fullmatch("[1-9][0-9]*", count):
        messages.append(f"{words[0]!r}: expected 'host:N' with a whole number; ports belong into ssh_config")
    return messages
