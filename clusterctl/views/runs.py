"""One run for people from the documents in its run folder."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clusterctl.documents.accept import Accept
from clusterctl.documents.check import Check
from clusterctl.documents.launch import Preflight
from clusterctl.documents.locate import Locate
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.errors import UsageError
from clusterctl.inventory import nodeset
from clusterctl.report.line import TonedLine, labelled
from clusterctl.report.text import of_view
from clusterctl.report.text.failures import fault_lines
from clusterctl.report.text.table import columns
from clusterctl.report.view import NextStep, View
from clusterctl.results import folders
from clusterctl.run_ids import BENCHMARKS
from clusterctl.text.grouping import grouped
from clusterctl.views import accept, bench, check, locate, preflight
from clusterctl.views.run_list import named, said

_BAD_VERDICTS = ("unmet", "unknown")


def head(one: ListedRun, undone_by: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:
    """Return what the list shows of a run, one line each, and which runs took it back on which nodes."""
    lines = {
        "run": one.run,
        "began": (one.started_at or "-").replace("T", " ").replace("Z", " UTC"),
        "outcome": said(one),
        "nodes": named(one.nodes),
        "undone by": "; ".join(f"{run} on {nodeset.fold(nodes)}" for run, nodes in undone_by.items()),
        "label": one.label or "",
        "folder": one.folder,
    }
    return columns(("", ""), [[name, text] for name, text in lines.items() if text], left=(0, 1)).lstrip("\n")


def page(verb: str, folder: Path, document: Mapping[str, Any] | None) -> View:
    """Return the view of a run for its page; raise UsageError for a run that has none."""
    found = None if document is None else _view(verb, folder, document, for_page=True)
    if found is None:
        without = "has no result yet" if document is None else f"of {verb!r} has no page"
        raise UsageError(f"run {folder.name} {without}", hint="leave out --html")
    return found


def _view(verb: str, folder: Path, document: Mapping[str, Any], *, for_page: bool = False) -> View | None:
    if verb in BENCHMARKS:
        return bench.view(folders.read(folder), for_page=for_page)
    if verb == "check":
        return check.view(Check.model_validate(document))
    if verb == "accept":
        return accept.view(Accept.model_validate(document))
    if verb == "preflight" and not for_page:
        return preflight.view(Preflight.model_validate(document))
    return locate.view(Locate.model_validate(document)) if verb == "locate" else None


def summary(
    verb: str, folder: Path, document: Mapping[str, Any], width: int | None = None
) -> list[TonedLine]:
    """Return what a run found or did, as its command printed it if there is a view of it."""
    view = _view(verb, folder, document)
    if view is not None:
        # A preflight's view has each failure itself.
        faults = () if verb == "preflight" else fault_lines(view.failures, view.sentence)
        return [*of_view.lines(view, None if verb in BENCHMARKS else width), *map(labelled, faults)]
    lines: Iterable[str] = ()
    if verb in ("bootstrap", "undo"):
        nodes = document["nodes"]
        lines = _aligned([*_unreachable(nodes), *_steps(nodes), *_verdicts(nodes)])
    elif verb == "up":
        rows = [[one["name"], f"{one['address']}:{one['port']}"] for one in document.get("nodes") or ()]
        lines = _aligned([*rows, *([one["name"], one["error"]] for one in document.get("failed") or ())])
    return list(map(TonedLine, lines))


def following(
    one: ListedRun, name: str, source: str | None, *, is_undone: bool, has_logs: bool
) -> Iterator[NextStep]:
    """Yield the command that continues a run, takes it back, or explains its failure.

    ``name`` is what the command line calls the run, ``source`` its inventory.
    """
    ended = one.outcome
    open_ends = (RunOutcome.FAILED, RunOutcome.UNFINISHED, RunOutcome.INTERRUPTED)
    if one.verb == "bootstrap" and not is_undone:
        if ended in open_ends:
            yield _step("does the remaining steps", "bootstrap", "--resume", name)
        elif ended in (RunOutcome.CHANGED, RunOutcome.UNMET):
            yield _step("takes its changes back", "undo", source or "--local", "--run", name)
    elif one.verb == "accept" and ended in open_ends:
        yield _step("measures the remaining rows", "accept", "--resume", name)
    elif one.verb == "up" and ended is RunOutcome.UP:
        yield _step("removes the containers", "down", "--run", name)
    elif one.verb in (*BENCHMARKS, "preflight", "locate") and ended is RunOutcome.FAILED and has_logs:
        yield _step("finds the cause in its logs", "explain", name)


def _step(why: str, *words: str) -> NextStep:
    return NextStep(shlex.join(("clusterctl", *words)), why)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of the same number of texts as lines, in columns."""
    heads = [""] * (len(rows[0]) if rows else 0)
    return columns(heads, rows, left=range(len(heads))).splitlines()[1:]


def _unreachable(nodes: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
    found = (
        (node["name"], (node["error"]["kind"], _message(node["name"], node["error"])))
        for node in nodes
        if node["error"]
    )
    for (kind, message), names in _folded(found):
        yield [kind, names, message]


def _message(name: str, error: Mapping[str, Any]) -> str:
    return " ".join(str(error.get("message") or "").removeprefix(f"{name}: ").split())


def _steps(nodes: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
    found = (
        (node["name"], (step["status"], step["requirement"], step["description"], step.get("reason") or ""))
        for node in nodes
        for step in node.get("steps", ())
    )
    for (status, requirement, description, reason), names in _folded(found):
        yield [status, names, f"{requirement}: {description}" + (f" ({reason})" if reason else "")]


def _verdicts(nodes: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
    found = (
        (node["name"], (verdict["status"], verdict["requirement"], verdict["reason"]))
        for node in nodes
        for verdict in node.get("verdicts", ())
        if verdict["status"] in _BAD_VERDICTS
    )
    for (status, requirement, reason), names in _folded(found):
        yield [status, names, f"{requirement}: {reason}"]


def _folded(found: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each distinct text once, with the names of its nodes."""
    alike = grouped((texts, name) for name, texts in found)
    for texts, names in alike.items():
        yield texts, nodeset.fold_counted(names)
