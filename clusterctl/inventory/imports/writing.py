"""Write the inventory.yaml of an import: nodes as ranges, common settings under defaults, and short comments."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import yaml

from clusterctl.inventory import nodeset
from clusterctl.inventory.imports.found import FoundNode, ImportedInventory, Setting, printable
from clusterctl.inventory.imports.ranges import ranges

_PLAIN = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~@+-]*")
_ORDER = (
    *("user", "port", "identity_file", "known_hosts", "proxy_jump", "become", "connection"),
    *("gpus", "slots", "python"),
)
_COMMENTS = {
    "identity_file": "private key on this machine",
    "become": "always use sudo; unset: sudo unless the login is root",
    "gpus": "GPUs per node; unset: as detected",
    "slots": "ranks per node; unset: number of GPUs, or of cores without GPUs",
    "proxy_jump": "jump host; ~/.ssh/config applies to it too",
}
_NOTES_SHOWN = 40


def text(
    found: ImportedInventory,
    title: str,
    *,
    remarks: Sequence[str] = (),
    suggestions: Sequence[tuple[str, Setting, str]] = (),
) -> str:
    """Return the file; ``title`` names its source. Nodes keep their order, which is the order of ranks.

    ``remarks`` are comments below the title, ``suggestions`` (key, value, meaning) settings that are commented out.
    """
    defaults = _hoisted(found.nodes)
    lines = [f"# {printable(line)}" for line in (title, *remarks)]
    if found.notes:
        lines += ["# Not imported, or changed:"]
        lines += [f"#   {note}" for note in found.notes[:_NOTES_SHOWN]]
        if len(found.notes) > _NOTES_SHOWN:
            lines.append(f"#   and {len(found.notes) - _NOTES_SHOWN} more")
    lines += ["version: 1", ""]
    if defaults or suggestions:
        lines.append("# Settings of all nodes; a node's own settings override them.")
        lines.append("defaults:" if defaults else "# defaults:")
        lines += [f"  {_entry(key, value)}" for key, value in _sorted(defaults)]
        commented = "  # " if defaults else "#   "
        lines += [
            f"{commented}{_entry(key, value)}  # {said}"
            for key, value, said in suggestions
            if key not in defaults
        ]
        lines.append("")
    if found.groups:
        lines += ["# For --limit, and for settings that override the defaults.", "groups:"]
        for name, members in found.groups.items():
            lines += [f"  {_scalar(name)}:", f"    nodes: {_scalar(nodeset.fold(members))}"]
        lines.append("")
    lines += ["# Ranks are placed in this order.", "nodes:"]
    for start, end in _alike(found.nodes):
        part = found.nodes[start:end]
        own = {k: v for k, v in part[0].settings.items() if defaults.get(k) != v}
        names = [node.name for node in part]
        for one in ranges(names, [node.address or node.name for node in part]):
            lines.append(f"  - name: {_scalar(one.name)}")
            if one.address is not None:
                lines.append(f"    address: {_scalar(one.address)}")
            lines += [f"    {_entry(key, value)}" for key, value in _sorted(own)]
    return "\n".join(_commented(lines)) + "\n"


def _commented(lines: list[str]) -> list[str]:
    """Add a comment to the first occurrence of each setting."""
    left = dict(_COMMENTS)
    result = []
    for line in lines:
        key, _, value = line.strip().partition(":")
        # A key without a value on its line is a group with that name.
        explained = line.startswith("  ") and value != "" and key in left
        result.append(f"{line}  # {left.pop(key)}" if explained else line)
    return result


def _hoisted(nodes: tuple[FoundNode, ...]) -> dict[str, Setting]:
    """Return the settings that every node has, with the value of the majority."""
    hoisted = {}
    for key in _ORDER:
        values = Counter(node.settings.get(key) for node in nodes)
        value, count = values.most_common(1)[0] if values else (None, 0)
        if value is not None and None not in values and count * 2 > len(nodes):
            hoisted[key] = value
    return hoisted


def _alike(nodes: tuple[FoundNode, ...]) -> list[tuple[int, int]]:
    """Return start and end (excluded) of each run of consecutive nodes with equal settings."""
    bounds = [0]
    for index in range(1, len(nodes)):
        if dict(nodes[index].settings) != dict(nodes[index - 1].settings):
            bounds.append(index)
    return list(zip(bounds, [*bounds[1:], len(nodes)], strict=True)) if nodes else []


def _sorted(settings: Mapping[str, Setting]) -> list[tuple[str, Setting]]:
    return sorted(settings.items(), key=lambda item: _ORDER.index(item[0]))


def _entry(key: str, value: Setting) -> str:
    return f"{key}: {_scalar(value)}"


def _scalar(value: Setting) -> str:
    if isinstance(value, int):
        return str(value)
    quoted = json.dumps(value, ensure_ascii=False)
    # YAML 1.1 reads 1:30, 1_000, 0x1f, 2024-01-01, off and ~ as values other than text.
    try:
        return value if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value else quoted
    except ValueError:  # 2024-99-99 looks like a date but is not a valid one
        return quoted
