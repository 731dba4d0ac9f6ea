"""The text of ``inventory show``: a list of nodes, or the settings of some with their origins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from clusterctl.inventory import nodeset
from clusterctl.report.text.table import columns, fits, with_notes
from clusterctl.text.wording import counted

_LONGEST = 60


def list_text(document: Mapping[str, Any]) -> str:
    """Return a row for each set of nodes with the same login and groups."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for node in document["nodes"]:
        key = (node["user"] or "-", str(node["port"] or "-"), ",".join(node["groups"]) or "-")
        alike.setdefault(key, []).append(node)
    rows = [
        (
            nodeset.fold(node["name"] for node in nodes), nodeset.fold(node["address"] for node in nodes),
            *key,
        )
        for key, nodes in alike.items()
    ]  # fmt: skip
    count = len(document["nodes"])
    head = f"{document['source'] or 'this machine'}: {counted(count, 'node')}"
    table = columns(("nodes", "addresses", "user", "port", "groups"), rows, left=(0, 1, 2, 4))
    return f"{head}, launcher {document['launcher']}\n\n{table}"


def settings_text(document: Mapping[str, Any], width: int | None) -> str:
    """Return the settings; nodes with equal settings, apart from their addresses, share a table."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for node in document["nodes"]:
        key = json.dumps([node["groups"], [one for one in node["settings"] if one["key"] != "address"]])
        alike.setdefault(key, []).append(node)
    return "\n\n".join(_table(nodes, width) for nodes in alike.values())


def _table(nodes: Sequence[Mapping[str, Any]], width: int | None) -> str:
    first = nodes[0]
    count = f" ({len(nodes)} nodes)" if len(nodes) > 1 else ""
    groups = f", groups: {', '.join(first['groups'])}" if first["groups"] else ""
    rows = [
        (
            one["key"],
            nodeset.fold(node["address"] for node in nodes)
            if one["key"] == "address"
            else _value(one["value"]),
            one["origin"],
        )
        for one in first["settings"]
    ]
    head = f"{nodeset.fold(node['name'] for node in nodes)}{count}{groups}"
    if not rows:
        return f"{head}\nevery setting has its default"
    table = columns(("setting", "value", "from"), rows, left=(0, 1, 2))
    if width is not None and not fits(table, width):
        short = columns(("setting", "value"), [row[:2] for row in rows], left=(0, 1))
        table = with_notes(short, [row[2] for row in rows], width)
    return f"{head}\n{table}"


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        text = ", ".join(map(str, value)) or "-"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = " ".join(str(value).split()) if value != {} else "-"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
