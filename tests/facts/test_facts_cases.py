"""Every parser on recorded output: a case is a pair of files below ``cases/<subject>/``."""

from __future__ import annotations

import json
from pathlib import Path

import facts_recorded as recorded
import pytest
from pydantic import TypeAdapter

CASES = sorted(recorded.CASES.glob("*/*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_recorded_output_is_understood(path: Path) -> None:
    found = recorded.SUBJECTS[path.parent.name](recorded.load(path))
    assert TypeAdapter(object).dump_python(found, mode="json") == json.loads(
        path.with_suffix(".json").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("subject", sorted(recorded.SUBJECTS))
def test_every_subject_has_cases(subject: str) -> None:
    texts = {path.stem for path in (recorded.CASES / subject).glob("*.txt")}
    values = {path.stem for path in (recorded.CASES / subject).glob("*.json")}
    assert texts and texts == values
