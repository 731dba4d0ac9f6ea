"""Every inventory that ships is loaded, and the schema beside them is the model's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from clusterctl import resources
from clusterctl.inventory import load, schema

SHIPPED = sorted(resources.folder("inventories").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_inventory_loads(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load it where the key files that it names are there."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in re.findall(r"^\s*identity_file: (\S+)", text, flags=re.MULTILINE):
        key = tmp_path / named.removeprefix("~/")
        key.parent.mkdir(parents=True, exist_ok=True)
        key.touch()
    copy = tmp_path / path.name
    copy.write_text(text, encoding="utf-8")
    assert load.load(copy).nodes


def test_the_examples_are_what_their_names_say() -> None:
    folder = resources.folder("inventories")
    a100 = load.load(folder / "example-2xA100.yaml")
    assert [(n.name, n.address, n.gpus, n.socket_ifname) for n in a100.nodes] == [
        ("gpu1", "10.0.0.1", 8, "bond0"),
        ("gpu2", "10.0.0.2", 8, "bond0"),
    ]
    h200 = load.load(folder / "example-2xH200.yaml")
    assert [(n.name, n.address, n.gpus) for n in h200.nodes] == [
        ("h200-01", "h200-01.cluster.example.org", 8),
        ("h200-02", "h200-02.cluster.example.org", 8),
    ]
    assert h200.nodes[0].env == {"NCCL_IB_TC": "106"}
    assert load.load(folder / "localhost.yaml").nodes[0].connection == "local"


def test_schema_json_is_in_step_with_the_model() -> None:
    shipped = resources.text("inventories", "schema.json")
    assert shipped == schema.text(), "run: make schema"


def test_the_schema_describes_and_closes_every_object() -> None:
    document = schema.schema()
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for name, definition in [("the file", document), *document["$defs"].items()]:
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False, name
            assert definition["description"], name


def test_the_schema_accepts_what_it_must_and_knows_every_key() -> None:
    """Every key that a shipped inventory uses is a property in the schema."""
    document = schema.schema()
    text = json.dumps(document)
    for path in SHIPPED:
        for key in _keys(yaml.safe_load(path.read_text(encoding="utf-8")), free=False):
            assert f'"{key}"' in text, (path.name, key)


def _keys(value: object, free: bool) -> set[str]:
    if isinstance(value, list):
        return set().union(*(_keys(item, False) for item in value), set())
    if not isinstance(value, dict):
        return set()
    own = set() if free else set(value)
    return own.union(*(_keys(item, key in ("env", "groups")) for key, item in value.items()), set())
