"""Which tool's inventory a text is, and the reader of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from clusterctl.errors import InventoryError
from clusterctl.inventory.imports import ansible, ansible_ini, hostfile, slurm, spreadsheet, ssh_config
from clusterctl.inventory.imports.found import Found, Source, numbered_lines


class Kind(str, Enum):
    """What can be imported."""

    ansible = "ansible"
    hostfile = "hostfile"
    slurm = "slurm"
    ssh_config = "ssh-config"


TITLES = {
    Kind.ansible: "an Ansible inventory",
    Kind.hostfile: "a hostfile",
    Kind.slurm: "Slurm's nodes",
    Kind.ssh_config: "an ssh_config",
}
_READERS: dict[Kind, Callable[[Source], Found]] = {
    Kind.ansible: ansible.read,
    Kind.hostfile: hostfile.read,
    Kind.slurm: slurm.read,
    Kind.ssh_config: ssh_config.read,
}


def detect(source: Source) -> Kind:
    """Say what the text is; a bare list of names is read as Slurm's, whose expressions it may hold."""
    if source.text.startswith("#!"):
        raise InventoryError(
            f"{source.name} is a program, and an import runs none",
            hint="run it through ansible-inventory -i FILE --list --yaml --export, and import its output from '-'",
        )
    if all(re.search(rf"^{key}:", source.text, re.MULTILINE) for key in ("version", "nodes")):
        raise InventoryError(
            f"{source.name}: an inventory of clusterctl's own already",
            hint="it is used as it stands: clusterctl check FILE",
        )
    if source.name.endswith((".yml", ".yaml", ".json")):
        return Kind.ansible
    for _ in numbered_lines(source.name, source.text):
        pass  # a line that is too long is refused before any pattern is tried on it
    if slurm.looks_like(source.text):
        return Kind.slurm
    if ssh_config.looks_like(source.text):
        return Kind.ssh_config
    if ansible_ini.looks_like(source.text) or ansible.looks_like_yaml(source.text):
        return Kind.ansible
    table = spreadsheet.problem(source.text)
    if table is not None:
        raise InventoryError(
            f"{source.name}:{table}",
            hint="it can be read as one name a line, or as 'ADDRESS NAME slots=8', without a heading; "
            "--from slurm or hostfile where these are names",
        )
    if hostfile.looks_like(source.text):
        return Kind.hostfile
    lines = [line.partition("#")[0].split() for line in source.text.splitlines()]
    if max(map(len, lines), default=0) > 1:
        # A log, a letter, the wrong file: all of its words would be nodes.
        raise InventoryError(
            f"{source.name}: not known as any tool's inventory: it has several words on a line",
            hint="a list of names has one a line; else say what it is with --from ansible, hostfile, slurm, ssh-config",
        )
    return Kind.slurm


def read(source: Source, kind: Kind) -> Found:
    """Read the text as this kind; raise InventoryError when no node is in it."""
    found = _READERS[kind](source)
    if not found.nodes:
        said = "".join(f"\n{note}" for note in found.notes[:10])
        raise InventoryError(
            f"{source.name}: no node was found in it, read as {TITLES[kind]}{said}",
            hint="say what it is with --from ansible, hostfile, slurm or ssh-config",
        )
    return found
