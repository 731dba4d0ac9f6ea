"""The view of ``bench --preflight``: what every launch needs, one check per line, up to the first that fails."""

from __future__ import annotations

from clusterctl.documents.launch import Preflight, RungStatus
from clusterctl.report.text.failures import fault_messages, in_a_sentence
from clusterctl.report.view import Block, Cell, Head, Table, View
from clusterctl.results import words
from clusterctl.views.tones import OF_WORDS


def view(found: Preflight) -> View:
    """Return one line for each check, and each further failure of the check that failed."""
    rows = tuple(
        (
            Cell(one.name),
            Cell(words.with_finer(word, words.FINER_OF_RUNGS.get(one.status, "")), OF_WORDS[word]),
            # The sentence above has the reason.
            Cell("" if one.status is RungStatus.FAILED else one.detail),
        )
        for one, word in ((one, words.OF_RUNGS[one.status]) for one in found.rungs)
    )
    heads = tuple(Head(name, words=True) for name in ("rung", "", ""))
    further = tuple(f"also: {message}" for _, message in list(fault_messages(found.failures))[1:])
    return View(
        "",
        (Block("", tables=(Table(heads, rows),), after=further),),
        failures=found.failures,
        sentence=_sentence(found),
    )


def _sentence(found: Preflight) -> str:
    if found.failures:
        return f"bad (failed): {in_a_sentence(found.failures)}"
    *_, started, eight_bytes = found.rungs
    return f"good: {started.detail}; {eight_bytes.detail}"
