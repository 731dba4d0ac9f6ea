"""Generate the inventory reference, ``docs/inventory.md``: every key with its values, default, meaning and place.

As a program, the module prints the page. It reads the JSON schema, which holds the models without resolved defaults.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from clusterctl import resources
from clusterctl.inventory import schema
from clusterctl.inventory.model import GroupSpec, Node, NodeSettings, NodeSpec
from clusterctl.inventory.shapes import shape_of
from clusterctl.text.foreign import json_value
from clusterctl.text.markdown import GENERATED, code, inline, page, paragraph, table

_WORDS = {"integer": "integer", "number": "number", "boolean": "`true` or `false`"}
_SETTINGS_IN = "`defaults`, `groups.NAME` and entries of `nodes`"

_REQUIRED = object()
_TOP_VALUES = {
    "defaults": "[settings of nodes](#settings-of-nodes)",
    "groups": "map of names to [groups](#keys-of-a-group) or to node sets",
    "nodes": "list of [nodes](#keys-of-a-node) or of their names, or one text with names",
}


class InventoryReference:
    """The keys of an inventory in words, from its JSON schema."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.models: Mapping[str, Any] = document["$defs"]

    def resolved(self, field: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the type of a field with references resolved, and without null (unset)."""
        (one,) = [choice for choice in field.get("anyOf", (field,)) if choice.get("type") != "null"][:1]
        held: Mapping[str, Any] = self.models[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        return held

    def sections(self, path: str, model: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield path and model of each field that is a section with keys of its own."""
        for key, field in model["properties"].items():
            held = self.resolved(field)
            if "properties" in held:
                yield f"{path}.{key}" if path else key, held

    def values(self, path: tuple[str, ...], field: Mapping[str, Any]) -> str:
        """Return the values that a field accepts, in words."""
        choices = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
        if len(choices) > 1:
            return " or ".join(self.values(path, one) for one in choices)
        held = self.resolved(field)
        if "properties" in held:
            return f"[section](#{_anchor('.'.join(path))})"
        if "const" in held:
            return code(str(held["const"]))
        if "enum" in held:
            return ", ".join(code(str(value)) for value in held["enum"])
        if "patternProperties" in held:
            (of_key,) = held["patternProperties"].values()
            name = inline(shape_of((*path, "KEY"), is_key=True) or "a name")
            return f"map; key: {name}; value: {self.plain(of_key)}"
        if held["type"] == "array":
            return f"list: {self.values(path, held['items'])}"
        if "pattern" in held or isinstance(held["type"], list):
            return inline(shape_of(path) or self.plain(held))
        return self.plain(held)

    def plain(self, held: Mapping[str, Any]) -> str:
        """Return a type in words, with its bounds."""
        word = "text or number" if isinstance(held["type"], list) else _WORDS.get(held["type"], "text")
        least, most = held.get("minimum"), held.get("maximum")
        if "exclusiveMinimum" in held:
            return f"{word} above {held['exclusiveMinimum']:g}"
        if least is None and most is None:
            return word
        return f"{word}, {least:g} or more" if most is None else f"{word}, {least:g} to {most:g}"

    def rows(
        self, path: str, fields: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, str, str]]:
        """Yield key, values, default and meaning of each field."""
        for key, field in fields.items():
            held = self.resolved(field)
            meaning = field.get("description") or held.get("description") or ""
            place = tuple(part for part in (*path.split("."), key) if part)
            yield code(key), self.values(place, field), _default(defaults.get(key)), inline(meaning)

    def keys_at(self, path: str) -> Iterator[tuple[str, str, str, str]]:
        """Yield dotted key, values, default and meaning of a setting of nodes, or of each key of a section."""
        *outer, last = path.split(".")
        model = self.models[NodeSettings.__name__]
        for part in outer:
            model = self.resolved(model["properties"][part])
        own: Mapping[str, Any] = {last: model["properties"][last]}
        held = self.resolved(own[last])
        if "properties" in held:
            outer, own = [*outer, last], held["properties"]
        rows = self.rows(".".join(outer), own, {key: field.get("default") for key, field in own.items()})
        for key, (_, values, default, meaning) in zip(own, rows, strict=True):
            yield code(".".join((*outer, key))), values, default, meaning

    def keys(self, path: str, fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
        """Return the table of a section's fields."""
        return table(("Key", "Value", "Default", "Meaning"), self.rows(path, fields, defaults))

    def section(self, path: str, model: Mapping[str, Any]) -> Iterator[str]:
        """Yield the blocks of a section of node settings and of the sections in it."""
        fields = model["properties"]
        yield f"## {path}"
        yield paragraph(inline(model["description"]))
        yield paragraph(f"Place: {code(path)} in {_SETTINGS_IN}.")
        yield self.keys(path, fields, {key: field.get("default") for key, field in fields.items()})
        for below, inner in self.sections(path, model):
            yield from self.section(below, inner)

    def blocks(self) -> Iterator[str]:
        """Yield the blocks of the page."""
        settings = self.models[NodeSettings.__name__]
        shared = settings["properties"]
        yield "# Inventory"
        yield GENERATED.format(source="the models in clusterctl/inventory/")
        yield paragraph(
            "Every key of an inventory file. Precedence for a node: its entry under `nodes`, its groups (a later "
            "group over an earlier one), `defaults`, the default on this page. Sections and maps merge key by "
            "key; a list replaces the list below it, and `null` restores the default. "
            "`clusterctl inventory validate` checks a file, and `clusterctl inventory show NODE` prints the settings "
            "of a node with the line that sets each. "
            "[`schema.json`](../inventories/schema.json) holds the same as JSON Schema, with which "
            "editors complete the file."
        )
        yield "## The file"
        top = self.document["properties"]
        yield table(
            ("Key", "Value", "Default", "Meaning"),
            (
                (
                    code(key),
                    _TOP_VALUES.get(key) or self.values((key,), field),
                    "required" if key in self.document["required"] else _default(field.get("default")),
                    inline(field["description"]),
                )
                for key, field in top.items()
            ),
        )
        for heading, name, place in (
            ("Keys of a node", NodeSpec.__name__, "entries of `nodes`"),
            ("Keys of a group", GroupSpec.__name__, "`groups.NAME`"),
        ):
            model = self.models[name]
            own = {key: field for key, field in model["properties"].items() if key not in shared}
            yield f"## {heading}"
            yield paragraph(inline(model["description"]))
            yield paragraph(f"Place: {place}, beside the [settings of nodes](#settings-of-nodes).")
            required = dict.fromkeys(model["required"], _REQUIRED)
            yield self.keys("", own, required)
        yield "## Settings of nodes"
        yield paragraph(inline(settings["description"]))
        yield paragraph(f"Place: {_SETTINGS_IN}.")
        yield self.keys("", shared, {key: Node.model_fields[key].default for key in shared})
        for path, model in self.sections("", settings):
            yield from self.section(path, model)


def shipped() -> InventoryReference:
    """Return the reference of the schema file that ships with clusterctl, which is faster than a new schema."""
    document: Mapping[str, Any] = json_value(resources.text("inventories", "schema.json"))
    return InventoryReference(document)


def _anchor(heading: str) -> str:
    return heading.lower().replace(".", "")


def _default(value: Any) -> str:
    if value is _REQUIRED:
        return "required"
    value = getattr(value, "value", value)
    if value is None or value in ((), [], {}) or not isinstance(value, (str, int, float, list)):
        return ""
    return code(value if isinstance(value, str) else json.dumps(value))


def text() -> str:
    """Return the content of ``docs/inventory.md``."""
    return page(InventoryReference(schema.schema()).blocks())


if __name__ == "__main__":
    sys.stdout.write(text())
