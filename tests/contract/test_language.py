"""The idioms that readers had to decode stay out of documents, help texts and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What must not be written, and what to write, with the reason.
IDIOMS = {
    r"(?<!there )\b(?:is|are|was|were) no\b(?! (?:longer|more|less)\b)": "'is not a valid X', 'must be X'",
    r"(?<!there )\b(?:is|are|was|were) none\b": "'is not one', 'there is no X': 'none' has no noun beside it",
    r"\b(?:no|some)body\b": "'another user', 'no user': an operator needs to know who",
    r"\banew\b": "'again', 'new'; of a node 'rebooted': the field's own words",
    r"\bmend(?:s|ed|ing)?\b": "'fix', 'repair': the field's own words",
    r"\b(?:is|are|was|were|be) told\b": "'reports', 'prints', 'receives': machines do not talk",
    r"\bin turns\b": "'interleaved', 'alternately': the field's own words",
    r"\bso often\b": "'repeats', 'number of times'",
    r"\bwhoever\b": "'each', 'every', 'a user who'",
    r"\bfall-back": "'fallback'",
    r"\bnot let in\b": "'login refused'",
    r"\bin (?:the )?place of\b": "'instead of'",
    r"\bexchange them\b": "'swap them'",
    r"(?<!run )(?<!packages\.)\bfolders?\b": "'directory'; 'run folder' is the product's name, packages.folder a key",
    r"\b(?:is|are|was|were) not there\b": "'not found', 'not installed', 'missing'",
    r"\bcounts? (?:first|before)\b": "'takes precedence'",
}  # fmt: skip
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
# Names of code, and SQL, whose columns are not renamed for the sake of a word.
_CODE = re.compile(r"`[^`\n]+`|\bNone\b|CREATE TABLE.*", re.DOTALL)


def found(text: str) -> list[str]:
    """Return the idioms in a text without its code, each with what to write."""
    text = _CODE.sub("", text)
    return [
        f"{hit[0]!r}: {better}"
        for idiom, better in IDIOMS.items()
        for hit in re.finditer(idiom, text, re.IGNORECASE)
    ]


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
