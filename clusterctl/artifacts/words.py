"""Check the words of launch commands: ranks, hosts, programs and variables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterctl.errors import ArtifactError
from clusterctl.inventory import nodeset

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def check(np: int, program: Sequence[str], hosts: Sequence[tuple[str, int]]) -> None:
    """Raise ArtifactError if ranks, program and hosts are not a valid launch under Open MPI."""
    if np < 1:
        raise ArtifactError(f"-np must be at least 1, not {np}", hint="ask for at least one rank with -np")
    if not program or not program[0] or program[0].startswith("-"):
        raise ArtifactError("no program to run was given", hint="write it after '--', or use --model")
    names = [name for name, _ in hosts]
    for name, slots in hosts:
        if not _HOST.fullmatch(name):
            raise ArtifactError(
                f"Open MPI rejects the host name {name!r}: only letters, digits, '.' and '-' are allowed",
                hint="rename the node in the inventory and set its `address`",
            )
        if slots < 1:
            raise ArtifactError(f"{name} has {slots} slots", hint="exclude the node, or set its `slots`")
    if len(set(names)) < len(names):
        raise ArtifactError(f"duplicate host: {nodeset.fold(sorted(names))}", hint="list each host once")
    total = sum(slots for _, slots in hosts)
    if hosts and np > total:
        raise ArtifactError(
            f"-np asks for {np} ranks, but {nodeset.fold(names)} has {total} slots",
            hint=f"ask for at most {total} with -np, or set `slots` (or `gpus`) in the inventory",
        )


def variable(name: str, value: str | None) -> str:
    """Return the word after ``-x``; raise ArtifactError for a variable that ``-x`` cannot pass on."""
    if not _VARIABLE.fullmatch(name):
        raise ArtifactError(f"{name!r} is not a valid name of an environment variable")
    if value is None:
        return name
    if "\n" in value or "\0" in value:
        raise ArtifactError(f"variable {name} contains a line break, which mpirun -x cannot pass on")
    return f"{name}={value}"


def plain_word(what: str, text: str) -> str:
    """Return the text if it is not empty and not an option; else raise ArtifactError."""
    if not text or text.startswith("-"):
        raise ArtifactError(f"{what} must not be {text!r}")
    return text
