"""Every JSON document has one model, which reads and writes recorded documents byte for byte, and one schema file."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterctl.documents import export
from clusterctl.documents.base import Document
from clusterctl.text import json_text

ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted((ROOT / "tests" / "contract" / "documents").glob("*.json"))
NAME = re.compile(r"clusterctl\.[a-z-]+/[0-9]+")
MODELS = {model.schema_name(): model for model in export.DOCUMENTS}


def literals() -> Iterator[tuple[str, Path]]:
    """Yield every string in clusterctl that is the name of a schema, with its module."""
    for path in sorted((ROOT / "clusterctl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                yield node.value, path


def test_the_name_of_a_schema_stands_in_the_module_of_its_model_only() -> None:
    found: dict[str, set[str]] = {}
    for name, path in literals():
        found.setdefault(name, set()).add(str(path.relative_to(ROOT).with_suffix("")).replace("/", "."))
    assert found == {name: {model.__module__} for name, model in MODELS.items()}
    assert len(MODELS) == len(export.DOCUMENTS) > 30


def test_the_schema_files_are_current() -> None:
    folder = ROOT / "docs" / "schemas"
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert there == export.files(), "run: make schema"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_document_is_written_again_byte_for_byte(path: Path) -> None:
    recorded = path.read_bytes()
    document = json.loads(recorded)
    model = MODELS[document["schema"]]
    assert json_text.indented(model.model_validate(document).document()) + b"\n" == recorded
    assert next(iter(document)) == "schema"


def test_most_documents_are_recorded() -> None:
    recorded = {json.loads(path.read_bytes())["schema"] for path in RECORDED}
    assert recorded <= set(MODELS)
    assert len(recorded) > 15


@pytest.mark.parametrize("model", export.DOCUMENTS, ids=lambda model: model.schema_name())
def test_a_document_of_another_schema_is_refused(model: type[Document]) -> None:
    with pytest.raises(ValueError, match="schema"):
        model.model_validate({"schema": "clusterctl.other/1"})
