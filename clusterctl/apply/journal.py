"""The controller's journal: ``apply.json``, and ``apply.journal.jsonl`` with one line per event."""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from clusterctl.apply.execute import NodeOutcome, StepOutcome
from clusterctl.apply.records import Event, JournalRecord
from clusterctl.apply.rolling import Rolling
from clusterctl.documents.apply import AppliedNode, AppliedStep, Apply, RunOptions, RunState
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.documents.words import NodeErrorWithoutHint
from clusterctl.errors import PlanError
from clusterctl.rundir import RunDir, own_file
from clusterctl.text import model_errors
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.transport.base import Failure

SCHEMA = Apply.schema_name()


def operator() -> str:
    """Return the operator's name for journals and locks: ``user@host``."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{platform.node() or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a run was started with, which ``--resume`` applies again."""

    only: tuple[str, ...] | None = None
    skip: tuple[str, ...] = ()
    rolling: Rolling = field(default_factory=Rolling)


class RunJournal:
    """Appends records to the run folder, each on disk before the node's next one is read; thread-safe.

    Records of many nodes share flushes: one thread flushes for all that have written so far. A flush per record takes
    milliseconds and would dominate the wall time of a large fleet.
    """

    def __init__(self, run: RunDir) -> None:
        self._path = run.path / "apply.journal.jsonl"
        self._writing = threading.Lock()
        self._flushing = threading.Lock()
        self._written = 0
        self._flushed = 0

    def __enter__(self) -> RunJournal:
        new = not self._path.exists()
        with self._told():
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if new:
                folder = os.open(self._path.parent, os.O_RDONLY)
                os.fsync(folder)
                os.close(folder)
            elif (size := os.fstat(self._handle).st_size) and os.pread(self._handle, 1, size - 1) != b"\n":
                # A crash may leave an incomplete last line, which must not merge with the next one.
                os.write(self._handle, b"\n")
        return self

    def _told(self) -> AbstractContextManager[None]:
        return own_file(self._path, "free space there, then continue with: clusterctl bootstrap --resume")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def add(self, node: str, key: str, record: JournalRecord, round_number: int = 1) -> None:
        """Append one record; ``key`` identifies the step in all parts of the run, empty for the run itself."""
        entry = {
            "time": round(time.time(), 3),
            "node": node,
            "number": record.number,
            "round": round_number,
            "key": key,
            "event": record.event.value,
            "detail": record.detail,
        }
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        with self._told(), self._writing:
            while line:
                line = line[os.write(self._handle, line) :]
            self._written += 1
            mine = self._written
        with self._told(), self._flushing:
            if self._flushed < mine:
                with self._writing:
                    on_disk = self._written
                os.fsync(self._handle)
                self._flushed = on_disk


def start(run: RunDir, options: Options, state_dir: str) -> None:
    """Write ``apply.json`` in its initial state, before any step is applied."""
    found = Apply(
        state=RunState.STARTED,
        operator=operator(),
        state_dir=state_dir,
        options=RunOptions(
            only=options.only,
            skip=options.skip,
            batch=options.rolling.batch,
            max_failures=options.rolling.max_failures,
        ),
        nodes={},
    )
    run.write("apply", found.document())


def finish(
    run: RunDir, outcomes: Mapping[str, NodeOutcome], failures: Mapping[str, Failure], state: RunState
) -> None:
    """Write the end of the run into ``apply.json``: ``finished``, or ``cut`` if a node has steps left.

    ``failures`` are the nodes whose facts could not be gathered. Steps of earlier parts of the run are kept; errors
    are those of this part.
    """
    recorded = _recorded(run)
    earlier = recorded.nodes
    nodes = {
        node: _node(earlier.get(node), outcomes.get(node), failures.get(node))
        for node in dict.fromkeys((*earlier, *outcomes, *failures))
    }
    run.write("apply", recorded.model_copy(update={"state": state, "nodes": nodes}).document())


def _node(earlier: AppliedNode | None, outcome: NodeOutcome | None, lost: Failure | None) -> AppliedNode:
    steps = {step.key: step for step in (earlier.steps if earlier is not None else ())}
    failure = lost
    if outcome is not None:
        failure = outcome.failure or lost
        for step in outcome.steps:
            # A change by an earlier part of this run is still a change of this run.
            if step.status is not AppliedStatus.UNCHANGED or step.key not in steps:
                steps[step.key] = AppliedStep.model_validate(step, from_attributes=True)
    error = None
    if failure is not None:
        error = NodeErrorWithoutHint(kind=failure.kind, message=failure.message)
    return AppliedNode(error=error, steps=tuple(steps.values()))


def stored_options(run: RunDir) -> tuple[Options, str]:
    """Return the options of an earlier part of this run and the nodes' state directory; raise PlanError without."""
    found = _recorded(run)
    options = found.options
    return Options(options.only, options.skip, Rolling(options.batch, options.max_failures)), found.state_dir


def _recorded(run: RunDir) -> Apply:
    document = run.read("apply")
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise PlanError(
            f"run {run.id} has no {SCHEMA} document",
            hint="only a bootstrap that began to apply its plan can be resumed; start a new run",
        )
    try:
        return Apply.model_validate(document)
    except ValidationError as error:
        raise PlanError(
            f"{run.file('apply')} is damaged: {model_errors.first(error)}", hint="start a new run"
        ) from None


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier parts of a run did, per node: steps that they changed, and keys of steps that ended.

    A failed or unchanged step has ended too; new facts decide whether it is still wanted.
    """

    changed: Mapping[str, tuple[StepOutcome, ...]]
    ended: Mapping[str, frozenset[str]]


def before(run: RunDir, planned: Mapping[str, Mapping[str, tuple[str, str]]]) -> Before:
    """Read what earlier parts of this run recorded.

    ``planned`` maps node -> key -> (requirement, description), from the run's stored plan. The node's own journal
    (events ``journal``) is used as well, because a record may be lost although its change was made.
    """
    path: Path = run.path / "apply.journal.jsonl"
    changed: dict[tuple[str, str], bool] = {}
    ended: dict[str, set[str]] = {}
    begun: dict[str, frozenset[str]] = {}
    lines = path.read_bytes().splitlines() if path.exists() else []
    for raw in lines:
        try:
            entry = json_value(raw)
        except NotUnderstood:
            continue  # an interrupted run may leave an incomplete last line
        event, node, key = entry["event"], entry["node"], entry["key"]
        over = ended.setdefault(node, set())
        if event == Event.PLANNED.value:
            # A step of an earlier round may be due again: no fact shows that a restart is still pending.
            begun[node] = frozenset(entry["detail"].split())
            over -= begun[node]
        elif event == Event.JOURNAL.value:
            state, _, key = entry["detail"].partition(" ")
            changed[node, key] = changed.get((node, key), False) or state == "done"
            # The node reports its journal before it applies this round, so steps of this round have not ended.
            over |= {key} - begun.get(node, frozenset()) if state == "done" else set()
        elif event == Event.CHANGED.value:
            changed[node, key] = True
        elif event == Event.FAILED.value:
            changed[node, key] = False
        if event in (Event.CHANGED.value, Event.FAILED.value, Event.UNCHANGED.value):
            over.add(key)
        elif event == Event.BEGIN.value:
            # A step of an earlier round can run again, such as a restart after another file.
            over.discard(key)
    found: dict[str, list[StepOutcome]] = {}
    for (node, key), made in changed.items():
        if made and key in planned.get(node, {}):
            requirement, description = planned[node][key]
            found.setdefault(node, []).append(
                StepOutcome(requirement, description, AppliedStatus.CHANGED, key)
            )
    return Before(
        {node: tuple(steps) for node, steps in found.items()},
        {node: frozenset(keys) for node, keys in ended.items()},
    )
