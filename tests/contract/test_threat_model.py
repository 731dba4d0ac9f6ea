"""The threat model names its proofs: every test that it names is there, and every defence has one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
HEADS = ("| They try to", "| It happens that", "| It was possible to")
ROWS = [
    line.strip("|").split(" | ")
    for line in PAGE.partition("## A compromised node")[2].splitlines()
    if line.startswith("| ") and not line.startswith(HEADS)
]
# A file or directory of the tests, and a test in it.
NAMED = re.compile(
    r"`((?:unit|contract|integration|facts|requirements|lab|core|gpu|golden)/[^`:]*)(?:::(\w+))?`"
)


def test_every_defence_names_its_test() -> None:
    assert len(ROWS) > 20
    for row in ROWS:
        assert len(row) in (2, 3), row
        assert NAMED.search(row[-1]), row


def test_every_named_test_is_there() -> None:
    named = set(NAMED.findall(PAGE))
    assert len(named) > 100
    assert [path for path, _ in sorted(named) if not (ROOT / "tests" / path.rstrip("/")).exists()] == []
    gone = [
        f"{path}::{test}"
        for path, test in sorted(named)
        if test and f"\ndef {test}(" not in (ROOT / "tests" / path).read_text(encoding="utf-8")
    ]
    assert gone == []
