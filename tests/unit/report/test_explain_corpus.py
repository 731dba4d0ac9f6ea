"""Real errors of public threads: how many the catalogue of ``explain`` answers as the thread does."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path

import explain_corpus
import pytest
import yaml
from explain_corpus import Score

from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import Scan

CASES = explain_corpus.load()
PAGE = Path(__file__).resolve().parents[3] / "docs" / "explain-corpus.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source.removeprefix("https://github.com/"))
def test_a_case_is_short_and_says_where_it_is_from(case: explain_corpus.Case) -> None:
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/[0-9]+", case.source)
    assert re.fullmatch(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]", case.date)
    assert 1 <= len(case.text.splitlines()) <= 15 and case.needs and case.answer.endswith(".")


def test_a_third_is_set_aside() -> None:
    assert len({case.source for case in CASES}) == len(CASES) >= 60
    assert 0.25 < sum(case.part == explain_corpus.SET_ASIDE for case in CASES) / len(CASES) < 0.42


def test_the_page_has_the_present_verdicts() -> None:
    """``python tests/support/explain_corpus.py > docs/explain-corpus.md``."""
    assert PAGE.read_text(encoding="utf-8") == explain_corpus.page()


def test_ten_lines_of_each_kind_that_operators_missed_are_known() -> None:
    entries = topic_files.load()
    kinds: dict[str, list[str]] = yaml.safe_load(
        (explain_corpus.CORPUS.parent / "kinds.yaml").read_text("utf-8")
    )
    assert {len(set(lines)) for lines in kinds.values()} == {10} and len(kinds) == 10
    for name, lines in kinds.items():
        for line in lines:
            scan = Scan(entries)
            scan.read("log", io.BytesIO(line.encode()))
            assert [found.entry.id for found in scan.findings] == [name], line


@pytest.mark.parametrize(
    ("part", "right", "wrong"),
    [(explain_corpus.OPEN, 0.98, 0), (explain_corpus.SET_ASIDE, 0.89, 0.02)],
)
def test_no_fewer_are_right_and_no_more_are_wrong(part: str, right: float, wrong: float) -> None:
    entries = topic_files.load()
    counted = Counter(case.score(entries)[0] for case in CASES if case.part == part)
    cases = counted.total()
    assert counted[Score.RIGHT] >= right * cases and counted[Score.WRONG] <= wrong * cases, counted
