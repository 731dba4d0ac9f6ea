"""What became of a run, judged by the documents in its run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clusterctl import run_ids
from clusterctl.containers.record import INVENTORY
from clusterctl.documents.kinds import FaultKind
from clusterctl.documents.locate import Locate, LocateStatus
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.errors import ClusterctlError, ConfigError
from clusterctl.results import folders, words
from clusterctl.rundir import ERROR, RunDir, ids
from clusterctl.runs import counts
from clusterctl.text.wording import counted

_RESULT = {
    "check": "report",
    "bootstrap": "report",
    "undo": "report",
    "bench": "results",
    "launch": "results",
    "preflight": "preflight",
    "locate": "results",
    "accept": "results",
    "up": "launch",
}
"""The stage whose document holds the result, for each command that leaves a run folder."""
VERBS = tuple(_RESULT)
_MESSAGE_CHARACTERS = 200
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Hold a word, and more about it."""

    word: RunOutcome
    detail: str = ""
    benchmark: str | None = None
    library: str | None = None
    verdict: str | None = None


def listed(run: RunDir) -> ListedRun:
    """Return a run as a line of the list; a damaged run folder is ``unreadable``."""
    verb, began = run_ids.verb_of(run.id), run_ids.started_at(run.id)
    try:
        nodes = _nodes(run)
        found = _with_error(run, _outcome(run, verb))
    except (ClusterctlError, *_DAMAGE) as error:
        # The list names the run, and has no room for its path.
        why = " ".join(str(error).split()).replace(f"{run.path}: ", "").replace(f"{run.path}/", "")
        nodes, found = (), RunEnd(RunOutcome.UNREADABLE, why[:_MESSAGE_CHARACTERS])
    return ListedRun(
        run=run.id,
        verb=verb,
        started_at=None if began is None else began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        nodes=nodes,
        outcome=found.word,
        detail=found.detail,
        benchmark=found.benchmark,
        library=found.library,
        verdict=found.verdict,
        label=run.label,
        folder=str(run.path.absolute()),
    )


def document_of(run: str) -> str:
    """Return the name of the file that holds the result of a run."""
    return f"{_RESULT.get(run_ids.verb_of(run), 'report')}.json"


def result(run: RunDir) -> Mapping[str, Any] | None:
    """Return the document of a run's result; None if it has none yet, ConfigError if it cannot be read."""
    return _document(run, _RESULT.get(run_ids.verb_of(run.id), "report"))


def undone_by(run: RunDir) -> dict[str, tuple[str, ...]]:
    """Return the undos that took changes of a bootstrap back, oldest first, each with its nodes.

    A damaged run folder of an undo is left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    if run_ids.verb_of(run.id) != "bootstrap":
        return found
    root = run.path.parent
    for later in reversed(ids(root)):
        if later > run.id and run_ids.verb_of(later) == "undo":
            try:
                nodes = _undone(result(RunDir(root / later)), run.id)
            except (ClusterctlError, *_DAMAGE):
                continue
            if nodes:
                found[later] = nodes
    return found


def _undone(document: Mapping[str, Any] | None, run: str) -> tuple[str, ...]:
    return tuple(
        str(node["name"])
        for node in (document or {}).get("nodes", ())
        if node["run"] == run and any(step["status"] == "changed" for step in node["steps"])
    )


def source(run: RunDir) -> str | None:
    """Return the inventory file or the targets of a run; None for this machine, or if it cannot be read."""
    try:
        found = (_document(run, "inventory") or {}).get("source")
    except ConfigError:
        return None
    return None if found is None else str(found)


def _document(run: RunDir, stage: str) -> Mapping[str, Any] | None:
    if not run.holds(f"{stage}.json"):
        return None
    found = run.read(stage)
    if not isinstance(found, dict):
        raise ConfigError(f"{run.file(stage)} is damaged: it is not a JSON object")
    return found


def _with_error(run: RunDir, found: RunEnd) -> RunEnd:
    """Return the end of a run that an error ended before it wrote its result, with the message of the error."""
    if found.word not in (RunOutcome.INTERRUPTED, RunOutcome.UNFINISHED):
        return found
    document = _document(run, ERROR)
    if document is None:
        return found
    message = " ".join(str(document["error"]["message"]).split())[:_MESSAGE_CHARACTERS]
    if found.word is RunOutcome.INTERRUPTED:
        return RunEnd(RunOutcome.FAILED, message)
    return RunEnd(found.word, "; ".join(filter(None, (found.detail, message))))


def _nodes(run: RunDir) -> tuple[str, ...]:
    inventory = _document(run, "inventory")
    return () if inventory is None else tuple(str(node["name"]) for node in inventory["nodes"])


def _outcome(run: RunDir, verb: str) -> RunEnd:
    if run.in_progress:
        return RunEnd(RunOutcome.RUNNING)
    if verb == "up" and run.holds(INVENTORY):
        return RunEnd(RunOutcome.UP)
    judge: Callable[[RunDir, Mapping[str, Any] | None], RunEnd] = _JUDGES.get(verb, _other)
    return judge(run, result(run))


def _other(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    return RunEnd(RunOutcome.INTERRUPTED if document is None else RunOutcome.OK)


def _check(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    if document is None:
        return RunEnd(RunOutcome.INTERRUPTED)
    bad = {word: int(document["summary"][word]) for word in ("unmet", "unknown", "unreachable")}
    detail = _counts(bad)
    word = RunOutcome.UNMET if detail else RunOutcome.OK
    return RunEnd(word, detail, verdict=words.of_counts(**bad).value)


def _bootstrap(run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    applied = _document(run, "apply")
    if applied is None:
        if document is None:
            return RunEnd(RunOutcome.INTERRUPTED)
        if document["summary"]["planned"]:
            return RunEnd(RunOutcome.PLANNED, counts.short(document))
    elif applied["state"] != "finished":
        return RunEnd(RunOutcome.UNFINISHED, "" if document is None else counts.short(document))
    return _changed(run, document)


def _changed(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    if document is None:
        return RunEnd(RunOutcome.INTERRUPTED)
    summary = document["summary"]
    if summary["failed"]:
        word = RunOutcome.FAILED
    elif summary["unreachable"] or summary.get("not_done"):
        # Nothing failed on a node that was not reached: the same command finishes the work there.
        word = RunOutcome.UNFINISHED
    elif any(counts.open_verdicts(document).values()):
        word = RunOutcome.UNMET
    else:
        word = RunOutcome.CHANGED if summary["changed"] else RunOutcome.OK
    return RunEnd(word, counts.short(document))


def _bench(run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    if document is None:
        return RunEnd(RunOutcome.INTERRUPTED)
    record = folders.read(run.path)
    summary = record.summary
    ranks = "" if summary.np is None else f" on {counted(summary.np, 'rank')}"
    library = f" ({summary.library})" if summary.library else ""
    figure = "" if summary.figure is None else f", {summary.best}"
    kinds = {fault.kind for fault in record.result.proof.failures or ()}
    word = RunOutcome.INTERRUPTED if FaultKind.INTERRUPTED in kinds else RunOutcome(summary.status)
    verdict = words.with_finer(*words.of_bench(record.result))
    what = f"{summary.benchmark}{library}{ranks}{figure}"
    return RunEnd(word, what, summary.benchmark, summary.library, verdict)


def _preflight(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    return RunEnd(RunOutcome.INTERRUPTED if document is None else RunOutcome(document["status"]))


def _locate(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    if document is None:
        return RunEnd(RunOutcome.INTERRUPTED)
    try:
        found = Locate.model_validate(document)
    except ValueError:
        raise ConfigError("results.json is not a clusterctl.locate/1 document") from None
    verdict = words.with_finer(*words.of_locate(found))
    if found.status is LocateStatus.NONE:
        return RunEnd(RunOutcome.OK, verdict=verdict)
    if found.status is LocateStatus.FAILED:
        return RunEnd(RunOutcome.FAILED, verdict=verdict)
    return RunEnd(RunOutcome.NAMED, ", ".join(found.named) or found.status.value, verdict=verdict)


def _accept(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    if document is None:
        return RunEnd(RunOutcome.INTERRUPTED)
    accepted, nodes = len(document["accepted"]), len(document["nodes"])
    word = RunOutcome.OK if document["status"] == "accepted" else RunOutcome.FAILED
    return RunEnd(word, f"{accepted} of {nodes} nodes accepted")


def _up(_run: RunDir, document: Mapping[str, Any] | None) -> RunEnd:
    if document is None:
        return RunEnd(RunOutcome.INTERRUPTED)
    failed, left = document.get("failed") or (), document.get("left") or ()
    if failed:
        return RunEnd(RunOutcome.FAILED, _counts({"failed": len(failed), "left running": len(left)}))
    return RunEnd(RunOutcome.REMOVED)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


_JUDGES = {
    "check": _check, "bootstrap": _bootstrap, "undo": _changed, "bench": _bench, "launch": _bench,
    "preflight": _preflight, "locate": _locate, "accept": _accept, "up": _up,
}  # fmt: skip
