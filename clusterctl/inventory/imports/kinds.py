"""Detect the tool that an inventory belongs to, and read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from clusterctl.errors import InventoryError
from clusterctl.inventory.field_types import is_address
from clusterctl.inventory.imports import (
    ansible,
    ansible_ini,
    clustershell,
    hostfile,
    hosts_file,
    slurm,
    ssh_config,
)
from clusterctl.inventory.imports.found import ImportedInventory, Source, numbered_lines, split_outside


class Kind(str, Enum):
    """The formats that can be imported."""

    ansible = "ansible"
    clustershell = "clustershell"
    etc_hosts = "etc-hosts"
    hostfile = "hostfile"
    slurm = "slurm"
    ssh_config = "ssh-config"


TITLES = {
    Kind.ansible: "an Ansible inventory",
    Kind.clustershell: "ClusterShell's groups",
    Kind.etc_hosts: "a hosts file",
    Kind.hostfile: "a hostfile",
    Kind.slurm: "Slurm's nodes",
    Kind.ssh_config: "an ssh_config",
}
_READERS: dict[Kind, Callable[[Source], ImportedInventory]] = {
    Kind.ansible: ansible.read,
    Kind.clustershell: clustershell.read,
    Kind.etc_hosts: hosts_file.read,
    Kind.hostfile: hostfile.read,
    Kind.slurm: slurm.read,
    Kind.ssh_config: ssh_config.read,
}


_CHOICES = ", ".join(kind.value for kind in Kind)
_SWITCHES = re.compile(r"^[ \t]*(SwitchName|BlockName)[ \t]*=", re.MULTILINE | re.IGNORECASE)
_GENDERS = re.compile(r"\S+[ \t]+[\w.+-]+(=[^\s,]*)?(,[\w.+-]+(=[^\s,]*)?)*")


def _refuse_known(source: Source) -> None:
    """Raise InventoryError for the formats of other tools that hold nodes, but cannot be imported."""
    if _SWITCHES.search(source.text):
        raise InventoryError(
            f"{source.name} is Slurm's topology: it has switches, not the addresses of nodes",
            hint="import the nodes: scontrol show node | clusterctl inventory import -",
        )
    lines = [content for line in source.text.splitlines() if (content := line.partition("#")[0].strip())]
    attributes = [_GENDERS.fullmatch(line) for line in lines]
    slots = hostfile.looks_like(source.text) or table_problem(source.text)
    if lines and not slots and all(attributes) and any("," in line.split()[1] for line in lines):
        raise InventoryError(
            f"{source.name} is a genders file, which cannot be imported",
            hint="import the nodes of an attribute: nodeattr -n ATTRIBUTE | clusterctl inventory import -",
        )


def detect(source: Source) -> Kind:
    """Return the format of a text; a plain list of names counts as Slurm's, since it may have Slurm's expressions.

    Raise InventoryError for programs, tables, and texts of unknown format.
    """
    if source.text.startswith("#!"):
        raise InventoryError(
            f"{source.name} is a program; an import does not run programs",
            hint="run ansible-inventory -i FILE --list --yaml --export, and import its output from '-'",
        )
    if all(re.search(rf"^{key}:", source.text, re.MULTILINE) for key in ("version", "nodes")):
        raise InventoryError(
            f"{source.name} is already an inventory of clusterctl's",
            hint="use it without import: clusterctl check FILE",
        )
    if source.name.endswith((".yml", ".yaml", ".json")):
        return Kind.ansible
    for _ in numbered_lines(source.name, source.text):
        pass  # raises for a line that is too long, before any pattern is tried on it
    if slurm.looks_like(source.text):
        return Kind.slurm
    if ssh_config.looks_like(source.text):
        return Kind.ssh_config
    if clustershell.looks_like(source.text):
        return Kind.clustershell
    if hosts_file.looks_like(source.text):
        return Kind.etc_hosts
    _refuse_known(source)
    if ansible_ini.looks_like(source.text) or ansible.looks_like_yaml(source.text):
        return Kind.ansible
    table = table_problem(source.text)
    if table is not None:
        raise InventoryError(
            f"{source.name}:{table}",
            hint="write one name per line, or 'ADDRESS NAME slots=8', without a heading; "
            "if these are names, add --from slurm or --from hostfile",
        )
    if hostfile.looks_like(source.text):
        return Kind.hostfile
    lines = [line.partition("#")[0].split() for line in source.text.splitlines()]
    if max(map(len, lines), default=0) > 1:
        # In a log or another wrong file every word would become a node.
        raise InventoryError(
            f"{source.name}: unknown inventory format: it has several words on a line",
            hint=f"write one name per line, or select the format with --from {_CHOICES}",
        )
    return Kind.slurm


def of_another_tool(source: Source) -> Kind | None:
    """Return the format of a text that was given as an inventory of clusterctl's and is one of another tool."""
    if re.search(r"^(version|nodes):", source.text, re.MULTILINE):
        return None
    try:
        for _ in numbered_lines(source.name, source.text):
            pass  # raises for a line that is too long, before any pattern is tried on it
    except InventoryError:
        return None
    if slurm.looks_like(source.text):
        return Kind.slurm
    if ssh_config.looks_like(source.text):
        return Kind.ssh_config
    of_ansible = ansible_ini.looks_like(source.text) or re.search(
        r"^[ \t]+(hosts|children):[ \t]*$", source.text, re.MULTILINE
    )
    if of_ansible:
        return Kind.ansible
    return Kind.hostfile if hostfile.looks_like(source.text) else None


def read(source: Source, kind: Kind) -> ImportedInventory:
    """Read the text in this format; raise InventoryError if it has no node."""
    found = _READERS[kind](source)
    if not found.nodes:
        said = "".join(f"\n{note}" for note in found.notes[:10])
        raise InventoryError(
            f"{source.name}: no node found when read as {TITLES[kind]}{said}",
            hint=f"select the format with --from {_CHOICES}",
        )
    return found


_BETWEEN = re.compile(r"[\s,;|]+")
_WHO = re.compile(
    r"(?:host|node|server|machine|inventory)?[_-]?(?:name|host|node|server|machine)s?"
    r"|(?:host|node|ip|ipv4|ipv6)?[_-]?(?:address|addr|ip)(?:es)?|ipv4|ipv6|fqdn|dns",
    re.IGNORECASE,
)
_WHAT = re.compile(r"gpus?|slots?|cpus?|user|username|port|rack|role|group", re.IGNORECASE)


def table_problem(text: str) -> str | None:
    """Return the line and reason if the text is a table of a spreadsheet; None for names, expressions and hostfiles.

    Its words look like names of nodes, but it is not an inventory of any tool.
    """
    lines = [(number, raw.partition("#")[0].strip()) for number, raw in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in lines if line]
    if len(lines) > 1 and _is_heading(lines[0][1]):
        return f"{lines[0][0]}: {lines[0][1][:60]!r} looks like the heading of a table"
    for number, line in lines:
        fields = [field.strip() for field in split_outside(line) if field.strip()]
        addresses = sum(map(is_address, fields))
        if len(fields) > 1 and (any(map(str.isdecimal, fields)) or 0 < addresses < len(fields)):
            return f"{number}: {line[:60]!r} looks like fields of one node, not like names of several nodes"
    return None


def _is_heading(line: str) -> bool:
    words = [word.strip("\"'") for word in _BETWEEN.split(line)]
    return any(map(_WHO.fullmatch, words)) and all(_WHO.fullmatch(w) or _WHAT.fullmatch(w) for w in words)
