"""One word for one thing: each public class of the package has a name of its own, and so has each module.

A model in ``documents`` may have the name of the class whose JSON it is.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import clusterctl

PACKAGE = Path(clusterctl.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def test_no_two_public_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if path.parent.name == "documents":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert len(found) > 200
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_two_modules_differ_only_in_spelling() -> None:
    british = {"catalogue": "catalog", "behaviour": "behavior", "colour": "color", "normalise": "normalize"}
    names = {path.stem for path in FILES}
    assert {name for name, other in british.items() if {name, other} <= names} == set()
