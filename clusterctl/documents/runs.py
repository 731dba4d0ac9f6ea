"""``runs``: the run folders of all commands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse


class RunOutcome(str, Enum):
    """Name what became of a run.

    ``interrupted``: it ended before it wrote its result. ``failed``: something failed, or an error ended the run.
    ``unmet``: requirements are unmet or unknown after a check or bootstrap. ``unfinished``: a bootstrap has steps left,
    or ``undo`` did not reach a node. ``up`` and ``removed``: the containers of an ``up`` run are up, or were removed.
    ``below-baseline``, ``below-threshold``: a benchmark is slower than its baseline, or less efficient than
    ``--min-efficiency``. ``named``: ``locate`` named a node, rail or link, or was inconclusive. ``doubtful``: the
    hardware reported faults during a benchmark, or a CPU quota, a node or a link slowed it. ``unreadable``: its
    documents cannot be read.
    """

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    OK = "ok"
    FAILED = "failed"
    UNMET = "unmet"
    PLANNED = "planned"
    CHANGED = "changed"
    NAMED = "named"
    UNFINISHED = "unfinished"
    BELOW_BASELINE = "below-baseline"
    BELOW_THRESHOLD = "below-threshold"
    NOT_JUDGED = "not-judged"
    DOUBTFUL = "doubtful"
    UP = "up"
    REMOVED = "removed"
    UNREADABLE = "unreadable"


class ListedRun(Sparse):
    """One run; ``started_at`` is RFC 3339 in UTC, ``detail`` says more about the outcome.

    ``benchmark`` and ``library`` are those of a benchmark, the libraries of all its variants joined by ``, ``.
    ``verdict`` of a check, a benchmark or ``locate`` is the word on its page, such as ``measured`` or ``bad (slow)``.
    """

    run: str
    verb: str
    started_at: str | None
    nodes: tuple[str, ...]
    outcome: RunOutcome
    detail: str
    benchmark: str | None = None
    library: str | None = None
    verdict: str | None = None
    label: str | None
    folder: str


class Runs(Document):
    """``clusterctl runs list --json``: newest first."""

    schema_: Literal["clusterctl.runs/1"] = Field(default="clusterctl.runs/1", alias="schema")
    runs: tuple[ListedRun, ...]


class ShownRun(Document):
    """``clusterctl runs show --json``: the run, and the document of its result (null without one).

    ``undone_by`` has the nodes on which each later ``undo`` took changes of the run back, by its run.
    """

    schema_: Literal["clusterctl.shown-run/1"] = Field(default="clusterctl.shown-run/1", alias="schema")
    run: ListedRun
    result: Mapping[str, Any] | None
    undone_by: Mapping[str, tuple[str, ...]] = {}


class KeptRun(Part):
    """A run that was not removed, and why."""

    run: str
    reason: str


class RunsRemoved(Document):
    """``clusterctl runs rm --json`` and ``runs prune --json``; with ``--dry-run`` nothing was removed."""

    schema_: Literal["clusterctl.runs-removed/1"] = Field(default="clusterctl.runs-removed/1", alias="schema")
    dry_run: bool
    removed: tuple[str, ...]
    kept: tuple[KeptRun, ...]


class RunLabel(Document):
    """``label.json`` of a run."""

    schema_: Literal["clusterctl.run-label/1"] = Field(default="clusterctl.run-label/1", alias="schema")
    label: str
