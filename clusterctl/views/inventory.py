"""The views of ``inventory show``: a list of nodes, or the settings of some with their origins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.view import Block, Cell, Head, Table, View
from clusterctl.text.wording import counted

_LONGEST = 60


def listing(document: Mapping[str, Any]) -> View:
    """Return a row for each set of nodes with the same login and groups."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for node in document["nodes"]:
        key = (node["user"] or "-", str(node["port"] or "-"), ",".join(node["groups"]) or "-")
        alike.setdefault(key, []).append(node)
    rows = tuple(
        tuple(map(Cell, (_folded(nodes, "name"), _folded(nodes, "address"), *key)))
        for key, nodes in alike.items()
    )
    count = counted(len(document["nodes"]), "node")
    head = f"{document['source'] or 'this machine'}: {count}, launcher {document['launcher']}"
    heads = tuple(
        Head(name, words=name != "port") for name in ("nodes", "addresses", "user", "port", "groups")
    )
    return View("", (Block("", lines=(head,)), Block("", tables=(Table(heads, rows),), apart=True)))


def settings(document: Mapping[str, Any]) -> View:
    """Return the settings; nodes with equal settings, apart from their addresses, share a table."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for node in document["nodes"]:
        key = json.dumps([node["groups"], [one for one in node["settings"] if one["key"] != "address"]])
        alike.setdefault(key, []).append(node)
    return View("", tuple(map(_settings, alike.values())))


def _settings(nodes: Sequence[Mapping[str, Any]]) -> Block:
    first = nodes[0]
    count = f" ({len(nodes)} nodes)" if len(nodes) > 1 else ""
    groups = f", groups: {', '.join(first['groups'])}" if first["groups"] else ""
    rows = tuple(
        (
            Cell(one["key"]),
            Cell(_folded(nodes, "address") if one["key"] == "address" else _value(one["value"])),
            Cell(one["origin"], Tone.FAINT if one["origin"] == "default" else Tone.PLAIN),
        )
        for one in first["settings"]
    )
    head = f"{_folded(nodes, 'name')}{count}{groups}"
    if not rows:
        return Block("", lines=(head, "every setting has its default"), apart=True)
    heads = (Head("setting", words=True), Head("value", words=True), Head("from", words=True, wide=True))
    notes = tuple(one["origin"] for one in first["settings"])
    return Block("", lines=(head,), tables=(Table(heads, rows, notes=notes),), apart=True)


def _folded(nodes: Sequence[Mapping[str, Any]], key: str) -> str:
    return nodeset.fold(node[key] for node in nodes)


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
