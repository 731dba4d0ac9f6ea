"""Hostfiles of Open MPI and MPICH, and the typing errors in them that launchers swallow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from clusterctl.errors import ArtifactError

_KEYS = ("slots", "max_slots", "max-slots", "slots_max", "slots-max", "count", "cpu", "username")
_WORD = re.compile(r"([^\s=]+)(\s*=\s*(\S*))?")


class Dialect(str, Enum):
    """Whose hostfile it is."""

    OPENMPI = "openmpi"
    """``host slots=8``"""
    MPICH = "mpich"
    """``host:8``, for Hydra's -f; Intel MPI alike."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A line (from 1) of a hostfile that does not say what it seems to."""

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
    to the address, and the name is for the reader; Open MPI 4 skips a bare second word in silence. Raise
    ArtifactError without hosts or for a host that has no slots.
    """
    if not hosts:
        raise ArtifactError("a hostfile needs at least one host", hint="widen --limit")
    lines = [f"# {text}" for text in (comment or "").splitlines()]
    for name, slots in hosts:
        if slots < 1:
            raise ArtifactError(f"{name} has {slots} slots", hint="leave the node out, or give it slots")
        address = name if addresses is None else addresses.get(name, name)
        if dialect is Dialect.MPICH:
            if ":" in address:
                raise ArtifactError(
                    f"MPICH reads the ':' in {address!r} as the count", hint="use the node's name"
                )
            lines.append(f"{address}:{slots}")
        elif address == name:
            lines.append(f"{name} slots={slots}")
        else:
            lines.append(f"{address} {name} slots={slots}")
    return "\n".join(lines) + "\n"


def lint(text: str, dialect: Dialect = Dialect.OPENMPI) -> tuple[Finding, ...]:
    """Return the lines that the launcher would misread.

    Open MPI ignores words it does not know and then counts the host's cores, or fails with the number of a
    token (nccl-tests issues 329 and 102; tried on Open MPI 4.1.4).
    """
    check = _lint_openmpi if dialect is Dialect.OPENMPI else _lint_mpich
    findings: list[Finding] = []
    seen: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        content = raw.split("#", 1)[0].strip()
        if not content:
            continue
        host = content.split()[0]
        if dialect is Dialect.MPICH:
            host = host.split(":", 1)[0]
        if host in seen:
            findings.append(Finding(number, f"{host} stands on line {seen[host]} already: its slots add up"))
        seen.setdefault(host, number)
        findings += [Finding(number, message) for message in check(content)]
    if not seen:
        findings.append(Finding(0, "no host in the file"))
    return tuple(findings)


def _lint_openmpi(content: str) -> list[str]:
    host, *after = content.split(None, 1)
    rest = after[0] if after else ""
    messages = []
    if host.count(":") == 1:  # two or more: an IPv6 address
        messages.append(f"{host!r}: a hostfile has no ports or counts after ':'; write 'host slots=N'")
    keys = []
    for key, assignment, value in _WORD.findall(rest):
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
