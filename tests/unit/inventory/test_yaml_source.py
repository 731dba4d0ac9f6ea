"""Both parsers of YAML, PyYAML's own and libyaml's, give the same document or the same refusal."""

from __future__ import annotations

import random
import re

import pytest
import yaml
from valid_inventory import VALID

from clusterctl.errors import InventoryError
from clusterctl.inventory import yaml_source

BLOCKS = """\
version: 1
nodes:
  - {name: a, address: "10.0.0.\\x31"}
  - name: 'it''s'
    env: {A: "x\\ty", B: 1.5, C: yes, D: ~}
    volumes: [/a:/b:ro, x]  # read-only
groups:
  g: [a, c]
defaults:
  text: a
    b
  quoted: "f
    g"
"""
PIECES = (
    "\n",
    " ",
    "  ",
    ":",
    ": ",
    "-",
    "- ",
    "---\n",
    "{",
    "}",
    "[",
    "]",
    '"',
    "'",
    ",",
    "#",
    " #",
    "|",
    ">",
)
PIECES += (
    "%",
    "@",
    "`",
    "~",
    "<<: ",
    "=",
    "0x1",
    "1:30",
    "yes",
    "\\",
    "\\ud800",
    "\\UFFFFFFFF",
    "...\n",
    "\t",
    "?",
)
PIECES += ("&a ", "*a", "!", "!!set ", "\u00e9", "\u2028", "\x00")


def damaged(draw: random.Random) -> str:
    text = draw.choice((VALID, BLOCKS))
    for _ in range(draw.randint(0, 3)):
        at, length = draw.randrange(len(text)), draw.choice((0, 0, 1, 4))
        text = text[:at] + draw.choice(PIECES) + text[at + length :]
    return text


def outcome(text: str) -> yaml_source.Document | str:
    try:
        return yaml_source.parse(text.encode(), "inventory.yaml")
    except InventoryError as error:
        return error.message


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")
def test_both_parsers_accept_and_refuse_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(31)
    texts = [damaged(draw) for _ in range(600)]
    fast = [outcome(text) for text in texts]
    composed = sum(bool(yaml_source._BOTH_ACCEPT_THE_SAME.fullmatch(text)) for text in texts)
    assert composed > 300
    monkeypatch.setattr(yaml_source, "_BOTH_ACCEPT_THE_SAME", re.compile("(?!)"))
    different = [text for text, found in zip(texts, fast, strict=True) if found != outcome(text)]
    assert different == []
    assert sum(isinstance(found, str) for found in fast) > 100
