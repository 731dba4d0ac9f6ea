"""The idioms that readers had to decode stay out of documents, help texts and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
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
MODULES = sorted(
    module
    for folder in ("clusterctl", "collective_core/python", "tools")
    for module in (ROOT / folder).rglob("*.py")
)
CXX = sorted(
    file
    for folder in ("src", "include", "cuda", "nccl", "nccl_plugins", "perf")
    for file in (ROOT / "collective_core" / folder).rglob("*")
    if file.suffix in (".cc", ".cu", ".cuh", ".h", ".inc")
)
_COMMENT_OR_STRING = re.compile(r'//(.*)$|"((?:[^"\\]|\\.)*)"')
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


def written_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment and string of a file of C++ or CUDA."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        for comment, string in _COMMENT_OR_STRING.findall(line):
            yield number, comment or string


# One test for each kind of file, which lists every hit: one for each of a thousand files costs more than the search.
def test_documents_are_in_plain_english() -> None:
    assert len(PAGES) > 90
    texts = {page: _FENCE.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    assert [f"{page.relative_to(ROOT)}: {hit}" for page, text in texts.items() for hit in found(text)] == []


@pytest.mark.parametrize(
    ("files", "texts_of"), [(MODULES, sentences), (CXX, written_in)], ids=["Python", "C++ and CUDA"]
)
def test_messages_help_texts_and_comments_are_in_plain_english(
    files: list[Path], texts_of: Callable[[Path], Iterator[tuple[int, str]]]
) -> None:
    assert len(files) > 200
    assert [
        f"{file.relative_to(ROOT)}:{line}: {hit}"
        for file in files
        for line, text in texts_of(file)
        for hit in found(text)
    ] == []


def test_comments_and_strings_of_cxx_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a.cc"
    file.write_text('int a;  // it is no number\nthrow Error("that is \\"none\\"");\nint nobody;\n')
    assert list(written_in(file)) == [(1, " it is no number"), (2, 'that is \\"none\\"')]
