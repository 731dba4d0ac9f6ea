"""The inventory's JSON schema, with which editors complete the file. As a program, the module prints the schema."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from clusterctl.inventory import short_forms
from clusterctl.inventory.frozen_model import Model
from clusterctl.inventory.model import InventoryFile


def schema() -> dict[str, Any]:
    """Return the schema (JSON Schema draft 2020-12) of inventory files."""
    generated = InventoryFile.model_json_schema(mode="validation")
    for model in _models():
        shown = generated if model is InventoryFile else generated["$defs"].get(model.__name__)
        for name, said in _said_of_fields(model).items() if shown else ():
            shown["properties"][name] = dict(
                sorted({**shown["properties"][name], "description": said}.items())
            )
    short_forms.allow_in(generated)
    generated["title"] = "clusterctl inventory"
    generated["description"] = "The nodes of a GPU cluster, and their settings."
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}


def _models() -> Iterator[type[Model]]:
    waiting: list[type[Model]] = [Model]
    while waiting:
        model = waiting.pop()
        yield model
        waiting += model.__subclasses__()


def _said_of_fields(model: type[Model]) -> dict[str, str]:
    """Return the docstring below each field of a class and of its bases, by field name.

    Pydantic could read them (``use_attribute_docstrings``), but only when it creates the class. That would add a
    tenth of a second to every command, for texts that only the schema uses.
    """
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not (issubclass(owner, Model) and owner is not Model):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                found[field.target.id] = inspect.cleandoc(below.value.value)
    return found


def text() -> str:
    """Return the content of ``inventories/schema.json``."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
