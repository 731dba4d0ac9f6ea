"""``bootstrap`` and ``undo``: the steps of every node, and what became of them."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.check import Verdict
from clusterctl.documents.words import NodeError


class StepStatus(str, Enum):
    """Name what became of a step; ``skipped`` includes a step that was already in the required state."""

    CHANGED = "changed"
    FAILED = "failed"
    SKIPPED = "skipped"
    PLANNED = "planned"


class Step(Sparse):
    """One step of one node; ``round`` is absent for the first round, because most runs have no other.

    ``undo`` is what an undo does with the step: ``remove /etc/x``.
    """

    OPTIONAL: ClassVar = frozenset({"reason", "notes", "round", "undo"})

    requirement: str
    description: str
    status: StepStatus
    reason: str | None = None
    notes: tuple[str, ...] | None = None
    round: int | None = None
    undo: str | None = None


class StepSummary(Part):
    """How many steps were changed, failed or planned, and how many nodes are unreachable."""

    changed: int
    failed: int
    planned: int
    unreachable: int


class BootstrappedNode(Part):
    """The steps of one node, and its verdicts after the last round."""

    name: str
    reachable: bool
    error: NodeError | None
    steps: tuple[Step, ...]
    verdicts: tuple[Verdict, ...]


class Bootstrap(Document):
    """``clusterctl bootstrap --json``; also ``report.json`` of its run."""

    schema_: Literal["clusterctl.bootstrap/1"] = Field(default="clusterctl.bootstrap/1", alias="schema")
    run: str
    nodes: tuple[BootstrappedNode, ...]
    summary: StepSummary


class UndoneNode(Part):
    """The steps of one node, and its run; ``nothing`` says why there was nothing to undo, else it is empty."""

    name: str
    reachable: bool
    error: NodeError | None
    run: str | None
    nothing: str
    steps: tuple[Step, ...]


class Undo(Document):
    """``clusterctl undo --json``; also ``report.json`` of its run, if anything was undone."""

    schema_: Literal["clusterctl.undo/1"] = Field(default="clusterctl.undo/1", alias="schema")
    nodes: tuple[UndoneNode, ...]
    summary: StepSummary
