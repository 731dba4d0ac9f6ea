"""The idioms that readers had to decode stay out of documents, help texts and messages."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from plain_english import found

ROOT = Path(__file__).resolve().parents[2]
_CXX_SUFFIXES = (".c", ".cc", ".cu", ".cuh", ".h", ".hpp", ".inc")
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
    if file.suffix in _CXX_SUFFIXES
)
# Their strings are data, as the account `nobody` is: only docstrings and comments are read.
TESTS = sorted(module for folder in ("tests", "benchmarks") for module in (ROOT / folder).rglob("*.py"))
TESTS_CXX = sorted(
    file
    for folder in ("tests", "benchmarks")
    for file in (ROOT / folder).rglob("*")
    if file.suffix in _CXX_SUFFIXES
)
_COMMENT_OR_STRING = re.compile(
    r"""//(?P<line>.*)|/\*(?P<block>(?s:.*?))\*/|"(?P<string>(?:[^"\\\n]|\\.)*)"|'(?:[^'\\\n]|\\.)'"""
)
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


def notes(module: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and comment, without the other strings of a module."""
    begins = True  # a statement, of which a string is a docstring
    with module.open(encoding="utf-8") as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT or (begins and token.type == tokenize.STRING):
                yield token.start[0], token.string
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def written_in(file: Path, kinds: Collection[str] = ("line", "block", "string")) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment and string, or of the kinds named, of a file of C, C++ or CUDA."""
    source = file.read_text(encoding="utf-8")
    for match in _COMMENT_OR_STRING.finditer(source):
        kind = match.lastgroup
        if kind is not None and kind in kinds:
            yield source.count("\n", 0, match.start()) + 1, match[kind]


def comments_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment of a file of C, C++ or CUDA."""
    return written_in(file, ("line", "block"))


# One test for each kind of file, which lists every hit: one for each of a thousand files costs more than the search.
def test_documents_are_in_plain_english() -> None:
    assert len(PAGES) > 90
    texts = {page: _FENCE.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    assert [f"{page.relative_to(ROOT)}: {hit}" for page, text in texts.items() for hit in found(text)] == []


@pytest.mark.parametrize(
    ("files", "texts_of"),
    [(MODULES, sentences), (CXX, written_in), (TESTS, notes), (TESTS_CXX, comments_in)],
    ids=["Python", "C++ and CUDA", "Python of tests", "C++ of tests"],
)
def test_messages_help_texts_and_comments_are_in_plain_english(
    files: list[Path], texts_of: Callable[[Path], Iterator[tuple[int, str]]]
) -> None:
    assert len(files) > 100
    assert [
        f"{file.relative_to(ROOT)}:{line}: {hit}"
        for file in files
        for line, text in texts_of(file)
        for hit in found(text)
    ] == []


def test_docstrings_and_comments_of_a_module_are_found_but_not_its_data(tmp_path: Path) -> None:
    module = tmp_path / "a.py"
    module.write_text('"""One."""\nUSERS = [  # two\n    "nobody",\n]\n\n\ndef f():\n    """Three."""\n')
    assert list(notes(module)) == [(1, '"""One."""'), (2, "# two"), (8, '"""Three."""')]


def test_comments_and_strings_of_cxx_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a.cc"
    file.write_text(
        "/* One\n * of two lines. */\nint a;  // it is no number\nchar b = '\"';\n"
        'throw Error("that is \\"none\\"");\nint nobody;\n'
    )
    comments = [(1, " One\n * of two lines. "), (3, " it is no number")]
    assert list(written_in(file)) == [*comments, (5, 'that is \\"none\\"')]
    assert list(comments_in(file)) == comments
