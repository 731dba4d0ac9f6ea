"""Short forms of an inventory: a text where an entry of ``nodes`` or of ``groups`` sets nothing but its nodes."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string", "minLength": 1}


def expanded(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the file with each short form as the mapping that it stands for; the order of entries stays.

    ``nodes: gpu[01-04]`` and ``- gpu[01-04]`` stand for ``- name: gpu[01-04]``, ``rack1: gpu[01-02]`` for
    ``rack1: {nodes: gpu[01-02]}``. A text with a colon stays as it is, because a blank behind its colon may be missing.
    """
    result = dict(tree)
    nodes, groups = tree.get("nodes"), tree.get("groups")
    if _is_short(nodes):
        nodes = [nodes]
    if isinstance(nodes, list):
        result["nodes"] = [{"name": entry} if _is_short(entry) else entry for entry in nodes]
    if isinstance(groups, dict):
        result["groups"] = {
            name: {"nodes": entry} if _is_short(entry) else entry for name, entry in groups.items()
        }
    return result


def _is_short(entry: object) -> bool:
    return isinstance(entry, str) and entry != "" and ":" not in entry


def allow_in(schema: dict[str, Any]) -> None:
    """Allow the short forms in the JSON Schema of the file."""
    properties = schema["properties"]
    nodes, groups = properties["nodes"], properties["groups"]["patternProperties"]
    nodes["items"] = {"anyOf": [nodes["items"], _TEXT]}
    listed = {key: nodes.pop(key) for key in ("items", "minItems", "type")}
    nodes["anyOf"] = [listed, _TEXT]
    for pattern, entry in groups.items():
        groups[pattern] = {"anyOf": [entry, _TEXT]}
