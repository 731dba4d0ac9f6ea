"""``bootstrap`` and ``undo``: the steps of every node, what became of them, and the counts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.check import ReadyToLaunch, Verdict
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.documents.words import NodeError


class NodeStatus(str, Enum):
    """Name what became of a node, once for each node.

    ``failed``: a step failed, or an error ended the work on a node that answers. ``not-started``: too many other nodes
    had failed (``--max-failures``).
    """

    OK = "ok"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    NOT_STARTED = "not-started"


class Step(Sparse):
    """One step of one node; ``round`` is absent for the first round, because most runs have no other.

    ``undo`` is what an undo does with the step: ``remove /etc/x``.
    """

    requirement: str
    description: str
    status: AppliedStatus
    reason: str | None = None
    notes: tuple[str, ...] | None = None
    round: int | None = None
    undo: str | None = None


class StepSummary(Part):
    """How many steps were changed, not done or planned, and how many nodes failed or are unreachable.

    ``not_done`` counts steps that are needed and were not begun.
    """

    changed: int
    failed: int
    not_done: int
    planned: int
    unreachable: int


class BootstrappedNode(Part):
    """The steps of one node, and its verdicts after the last round."""

    name: str
    status: NodeStatus
    reachable: bool
    error: NodeError | None
    steps: tuple[Step, ...]
    verdicts: tuple[Verdict, ...]


class Bootstrap(Document, Sparse):
    """``clusterctl bootstrap --json``; also ``report.json`` of its run.

    ``ready_to_launch`` is absent if nothing was checked that a launch needs.
    """

    schema_: Literal["clusterctl.bootstrap/1"] = Field(default="clusterctl.bootstrap/1", alias="schema")
    run: str
    nodes: tuple[BootstrappedNode, ...]
    summary: StepSummary
    ready_to_launch: ReadyToLaunch | None = None


class UndoneNode(Part):
    """The steps of one node, and its run; ``nothing`` says why there was nothing to undo, else it is empty.

    ``older`` is then the latest run that the node's journal still holds.
    """

    name: str
    status: NodeStatus
    reachable: bool
    error: NodeError | None
    run: str | None
    nothing: str
    older: str | None
    steps: tuple[Step, ...]


class Undo(Document):
    """``clusterctl undo --json``; also ``report.json`` of its run, if anything was undone.

    ``run`` is the run that was taken back: the newest of the nodes, or that of ``--run``; null with ``--each``, and if
    no node has a run.
    """

    schema_: Literal["clusterctl.undo/1"] = Field(default="clusterctl.undo/1", alias="schema")
    run: str | None
    nodes: tuple[UndoneNode, ...]
    summary: StepSummary


def status_of(
    steps: Sequence[Step], *, reachable: bool, error: NodeError | None, started: bool = True
) -> NodeStatus:
    """Return what became of a node; an unreachable node counts as such, even if its connection broke in a step."""
    if not reachable:
        return NodeStatus.UNREACHABLE
    if not started:
        return NodeStatus.NOT_STARTED
    failed = error is not None or any(step.status is AppliedStatus.FAILED for step in steps)
    return NodeStatus.FAILED if failed else NodeStatus.OK


def summary_of(nodes: Sequence[BootstrappedNode | UndoneNode]) -> StepSummary:
    """Return the counts of a run, from which every output and the exit code derive."""
    steps = [step.status for node in nodes for step in node.steps]
    ends = [node.status for node in nodes]
    return StepSummary(
        changed=steps.count(AppliedStatus.CHANGED),
        failed=ends.count(NodeStatus.FAILED),
        not_done=steps.count(AppliedStatus.SKIPPED),
        planned=steps.count(AppliedStatus.PLANNED),
        unreachable=ends.count(NodeStatus.UNREACHABLE),
    )
