"""The idioms that readers had to decode stay out of documents, help texts and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_english import found

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md")]
    + [
        page
        for folder in ("docs", "clusterctl", "collective_core/docs")
        for page in (ROOT / folder).rglob("*.md")
    ]
)
MODULES = sorted((ROOT / "clusterctl").rglob("*.py"))
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def sentences(module: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string with two blanks or more, and of each docstring and comment."""
    source = module.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 1:
            yield node.lineno, node.value
    for number, line in enumerate(source.splitlines(), start=1):
        if line.lstrip().startswith("# "):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documents_are_in_plain_english(page: Path) -> None:
    assert found(_FENCE.sub("", page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(ROOT)))
def test_messages_help_texts_and_comments_are_in_plain_english(module: Path) -> None:
    hits = [f"line {line}: {hit}" for line, text in sentences(module) for hit in found(text)]
    assert hits == []
