"""The inventory.yaml of what was found: ranges, what all nodes share hoisted, and a comment where one helps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping

import yaml

from clusterctl.inventory import nodeset
from clusterctl.inventory.imports.found import Found, FoundNode, Setting, printable
from clusterctl.inventory.imports.ranges import ranges

_PLAIN = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~@+-]*")
_ORDER = (
    *("user", "port", "identity_file", "known_hosts", "proxy_jump", "become", "connection"),
    *("gpus", "slots", "python"),
)
_COMMENTS = {
    "identity_file": "private key on this machine",
    "become": "sudo always; leave it out for: root already, else sudo",
    "gpus": "GPUs per node; unset: as found",
    "slots": "ranks per node; unset: GPUs, or cores without any",
    "proxy_jump": "the way there; ~/.ssh/config counts for it too",
}
_NOTES_SHOWN = 40


def text(found: Found, title: str) -> str:
    """Return the file; ``title`` says where it comes from. Nodes keep their order, which is the ranks'."""
    defaults = _hoisted(found.nodes)
    lines = [f"# {printable(title)}"]
    if found.notes:
        lines += ["# Not carried over, or not as it stood there:"]
        lines += [f"#   {note}" for note in found.notes[:_NOTES_SHOWN]]
        if len(found.notes) > _NOTES_SHOWN:
            lines.append(f"#   and {len(found.notes) - _NOTES_SHOWN} more")
    lines += ["version: 1", ""]
    if defaults:
        lines += ["# What holds for all nodes, unless they say otherwise.", "defaults:"]
        lines += [f"  {_entry(key, value)}" for key, value in _sorted(defaults)]
        lines.append("")
    if found.groups:
        lines += ["# For --limit, and for settings between the defaults and a node's own.", "groups:"]
        for name, members in found.groups.items():
            lines += [f"  {_scalar(name)}:", f"    nodes: {_scalar(nodeset.fold(members))}"]
        lines.append("")
    lines += ["# In the order in which ranks fill them.", "nodes:"]
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
    """Explain a setting where it stands first."""
    left = dict(_COMMENTS)
    result = []
    for line in lines:
        key, _, value = line.strip().partition(":")
        # What has no value on its line is a group of that name.
        explained = line.startswith("  ") and value != "" and key in left
        result.append(f"{line}  # {left.pop(key)}" if explained else line)
    return result


def _hoisted(nodes: tuple[FoundNode, ...]) -> dict[str, Setting]:
    """Return settings that every node has, with the value that most of them have."""
    hoisted = {}
    for key in _ORDER:
        values = Counter(node.settings.get(key) for node in nodes)
        value, count = values.most_common(1)[0] if values else (None, 0)
        if value is not None and None not in values and count * 2 > len(nodes):
            hoisted[key] = value
    return hoisted


def _alike(nodes: tuple[FoundNode, ...]) -> list[tuple[int, int]]:
    """Return the stretches of neighbours with equal settings."""
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
    # YAML 1.1 also reads 1:30, 1_000, 0x1f, 2024-01-01, off and ~ as something else than text.
    try:
        return value if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value else quoted
    except ValueError:  # 2024-99-99: the shape of a date, and none
        return quoted
