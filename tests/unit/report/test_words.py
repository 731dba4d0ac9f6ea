"""The words for people: each status has one, and what is not known or did not run is never good."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import pytest
from locate_documents import document

from clusterctl.acceptance.model import RowStatus
from clusterctl.acceptance.rows import fleet
from clusterctl.documents.accept import AcceptStatus
from clusterctl.documents.bench import BenchStatus
from clusterctl.documents.kinds import VerdictStatus
from clusterctl.documents.launch import RungStatus
from clusterctl.documents.locate import SuspectStatus
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.report.check_document import document_of
from clusterctl.report.html import of_view
from clusterctl.report.line import Tone
from clusterctl.requirements.base import Decision
from clusterctl.results import words
from clusterctl.results.words import Word
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views import check, run_list
from clusterctl.views.tones import OF_WORDS

MET = Decision("memlock", VerdictStatus.MET, "unlimited")
UNMET = Decision("acs", VerdictStatus.UNMET, "redirects")
UNKNOWN = Decision("gpu-health", VerdictStatus.UNKNOWN, "MIG is on: its instances are not read")
DOWN = Failure(FailureKind.REFUSED, "n2 refused the connection")


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        (VerdictStatus, words.OF_VERDICTS),
        (RowStatus, words.OF_ROWS),
        (SuspectStatus, words.OF_SUSPECTS),
        (RungStatus, words.OF_RUNGS),
        (AcceptStatus, words._OF_ACCEPTS),
        (set(BenchStatus) - {BenchStatus.OK}, words._OF_BENCHES),
        (Word, OF_WORDS),
    ],
)
def test_each_status_has_a_word_and_each_word_a_tone(statuses: type[Enum], found: dict[Enum, Word]) -> None:
    assert set(statuses) == set(found)


def test_what_is_not_known_or_did_not_run_is_never_good() -> None:
    good = [
        status
        for found in (words.OF_VERDICTS, words.OF_ROWS, words.OF_RUNGS)
        for status in found
        if found[status] is Word.GOOD
    ]
    assert good == [VerdictStatus.MET, RowStatus.OK, RungStatus.OK]
    assert words.OF_ROWS[RowStatus.NOT_APPLICABLE] is words.OF_ROWS[RowStatus.NOT_RUN] is Word.NOT_MEASURED
    assert words._OF_BENCHES[BenchStatus.NOT_JUDGED] is Word.UNSURE


@pytest.mark.parametrize(
    ("nodes", "word"),
    [
        ({"n1": (MET,)}, "good"),
        ({"n1": (MET, UNKNOWN)}, "unsure (1 of 1 node not as required)"),
        ({"n1": (UNMET, UNKNOWN), "n3": (MET,)}, "bad (1 of 2 nodes not as required)"),
        ({"n1": (UNMET,), "n2": DOWN}, "bad (2 of 2 nodes not as required)"),
        ({"n1": (MET, UNKNOWN), "n2": DOWN}, "down (1 of 2 nodes)"),
        ({"n1": (MET,), "n2": DOWN}, "down (1 of 2 nodes)"),
    ],
)
def test_a_check_is_good_only_if_everything_is_known(
    nodes: dict[str, tuple[Decision, ...] | Failure], word: str
) -> None:
    assert check.view(document_of(HostMap(nodes))).word == word


def test_locate_that_is_inconclusive_fails_no_node_of_accept() -> None:
    found = document(8, bad={(node, 0): 0.3 for node in range(4)})
    assert found.status.value == "inconclusive"
    nodes = [f"n{number}" for number in range(1, 9)]
    answer = fleet.answer_of(found, nodes, "1.0")
    assert answer.failed == "" and answer.not_run.startswith("locate is inconclusive: ")
    assert "; n[1-4] are 30% slower than n[5-8]" in answer.not_run
    assert all(not one.findings for one in answer.parsed.values())
    assert fleet.answer_of(document(8, bad={(2, 0): 0.3}), nodes, "1.0").parsed["n3"].findings[0].status is (
        RowStatus.FAIL
    )


@pytest.mark.parametrize(
    ("word", "sign"),
    [
        (Word.GOOD, "✓"),
        (Word.BAD, "✕"),
        (Word.DOWN, "✕"),
        (Word.UNSURE, "?"),
        (Word.NOT_MEASURED, "?"),
        (Word.BUSY, "?"),
        (Word.MEASURED, "·"),
    ],
)
def test_the_sign_on_top_of_a_page_fits_its_word(word: Word, sign: str) -> None:
    page = of_view.render(
        replace(check.view(document_of(HostMap({"n1": (MET,)}))), word=word.value, tone=OF_WORDS[word])
    )
    assert f"{sign} {word.value}</span>" in page


def listed(outcome: RunOutcome, detail: str = "", verdict: str | None = None) -> ListedRun:
    return ListedRun(
        run="20260101T000000Z-bench-0001", verb="bench", started_at=None, nodes=("n1",), outcome=outcome,
        detail=detail, verdict=verdict, label=None, folder="runs/x",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("run", "said", "tone"),
    [
        # A green "ok" above a scaling efficiency of 24 % would be read as a verdict.
        (
            listed(RunOutcome.OK, "resnet50 on 4 ranks", "measured"),
            "measured: resnet50 on 4 ranks",
            Tone.FAINT,
        ),
        (
            listed(RunOutcome.OK, "all_reduce", "good (as expected)"),
            "good (as expected): all_reduce",
            Tone.GOOD,
        ),
        (listed(RunOutcome.OK, "all_reduce", "bad (slow)"), "bad (slow): all_reduce", Tone.BAD),
        (listed(RunOutcome.OK), "good", Tone.GOOD),
        (listed(RunOutcome.CHANGED, "22 changed"), "good: 22 changed", Tone.GOOD),
        (listed(RunOutcome.PLANNED, "3 planned"), "not measured: 3 planned", Tone.OPEN),
        (listed(RunOutcome.FAILED, "no route to n1"), "bad (failed): no route to n1", Tone.BAD),
        (listed(RunOutcome.UNMET, "2 unmet, 5 unreachable"), "bad: 2 unmet, 5 unreachable", Tone.BAD),
        (listed(RunOutcome.UNMET, "3 unknown"), "unsure: 3 unknown", Tone.OPEN),
        (listed(RunOutcome.UNMET, "5 unreachable", "down"), "down: 5 unreachable", Tone.BAD),
        (listed(RunOutcome.RUNNING), "busy (running)", Tone.OPEN),
        (listed(RunOutcome.INTERRUPTED), "not measured (interrupted)", Tone.OPEN),
        (listed(RunOutcome.REMOVED), "good (removed)", Tone.GOOD),
        (
            listed(RunOutcome.NAMED, "inconclusive", "unsure (inconclusive)"),
            "unsure (inconclusive)",
            Tone.OPEN,
        ),
    ],
)
def test_a_list_of_runs_has_the_words_of_their_pages(run: ListedRun, said: str, tone: Tone) -> None:
    (row,) = run_list.view([run]).blocks[0].tables[0].rows
    assert (row[3].text, row[3].tone) == (said, tone)


def test_every_outcome_of_a_run_has_a_word() -> None:
    assert {words.of_run(listed(one))[0] for one in RunOutcome} <= set(Word)
