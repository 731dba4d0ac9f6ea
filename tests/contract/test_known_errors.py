"""Each entry of the catalogue of ``explain`` has real lines that it matches, and lines near them that it does not."""

from __future__ import annotations

import io
from pathlib import Path

import explain_corpus
import yaml

from clusterctl.report.known_errors import line_readings, topic_files
from clusterctl.report.known_errors.scan import Scan

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
NEAR = {
    name: tuple(lines)
    for name, lines in yaml.safe_load((CORPUS / "near_misses.yaml").read_text(encoding="utf-8")).items()
}
ENTRIES = topic_files.load()
FAMILIES = {family.family: family.readings for family in line_readings.families()}
WITHOUT_TWO_EXCERPTS = ["nvml-no-devices"]
"""Entries whose program prints one line only; a new entry needs two."""


def found_in(line: str) -> set[str]:
    scan = Scan(ENTRIES)
    scan.read("log", io.BytesIO(line.encode()))
    return {found.entry.id for found in scan.findings}


def test_no_entry_matches_what_is_only_near_it() -> None:
    assert set(NEAR) <= {entry.id for entry in ENTRIES} | set(FAMILIES)
    wrong = [(name, line) for name, lines in NEAR.items() for line in lines if name in found_in(line)]
    assert wrong == []


def test_no_family_of_readings_reads_a_line_that_is_only_near_it() -> None:
    wrong = [
        (name, line)
        for name, lines in NEAR.items()
        for line in lines
        if any(row.match(line) for row in FAMILIES.get(name, ()))
    ]
    assert wrong == []


def test_entries_have_two_real_excerpts_and_two_near_misses() -> None:
    """An excerpt is an example of the entry, which has its source, or a line of the corpus of public threads."""
    excerpts = {entry.id: set(entry.examples) for entry in ENTRIES}
    for line in {line for case in explain_corpus.load() for line in case.text.splitlines()}:
        for name in found_in(line):
            excerpts[name].add(line)
    assert [name for name, lines in excerpts.items() if len(lines) < 2] == WITHOUT_TWO_EXCERPTS
    assert [entry.id for entry in ENTRIES if len(set(NEAR.get(entry.id, ()))) < 2] == []
