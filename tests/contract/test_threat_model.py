"""The threat model names its proofs: every test that it names is there, and every defence has one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
ROWS = [
    line.strip("|").split(" | ")
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| They try to", "| It happens that"))
]


def test_every_defence_names_its_test() -> None:
    assert len(ROWS) > 20
    for row in ROWS:
        assert len(row) == 3, row
        assert row[2].strip().startswith("`"), row


def test_every_named_test_is_there() -> None:
    named = {
        name
        for row in ROWS
        for name in re.findall(r"`((?:unit|contract|integration|facts|requirements|lab|core)/[^`]*)`", row[2])
    }
    assert len(named) > 50
    assert [name for name in sorted(named) if not (ROOT / "tests" / name.rstrip("/")).exists()] == []
