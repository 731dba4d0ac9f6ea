"""``check``: the verdicts and the drift of a fleet; also ``report.json`` of its run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.kinds import VerdictOwner, VerdictStatus
from clusterctl.documents.words import NodeError, StrictFailure


class Verdict(Sparse):
    """The judgement of one requirement on one node.

    Of an unmet one, ``owner`` is who meets it, and ``no_step`` why bootstrap has no step, if the reason does not say
    so.
    """

    requirement: str
    status: VerdictStatus
    owner: VerdictOwner | None = None
    reason: str
    no_step: str | None = None
    evidence: dict[str, Any]
    warnings: tuple[str, ...] | None = None


class CheckedNode(Part):
    """The verdicts of one node; none if it is not reachable."""

    name: str
    reachable: bool
    error: NodeError | None
    verdicts: tuple[Verdict, ...]


class NodeCounts(Part):
    """How many nodes there are of each kind; a node with unmet and unknown requirements counts for each of them.

    ``you``: a person must meet a requirement; ``bootstrap``: bootstrap meets one; ``whole``: nothing is unmet or
    unknown.
    """

    you: int
    bootstrap: int
    unknown: int
    whole: int
    unreachable: int


class CheckSummary(Part):
    """How many verdicts of each kind there are, how many nodes are unreachable, and what the nodes need."""

    met: int
    unmet: int
    unknown: int
    not_applicable: int
    unreachable: int
    nodes: NodeCounts


class Deviation(Part):
    """Nodes whose value of a fact differs from that of the others; ``tie``: no value has the majority."""

    fact: str
    value: str
    others: str
    nodes: tuple[str, ...]
    tie: bool


class ReadyToLaunch(Part):
    """Whether a launch finds what it needs on every node, and the requirements that are not met.

    ``bootstrap``: those of ``missing`` for which bootstrap has a step. ``switched_off``: those that the inventory
    switches off; ``not_checked``: those that were left out on some node. Neither counts as missing.
    """

    ready: bool
    missing: tuple[str, ...]
    bootstrap: tuple[str, ...]
    switched_off: tuple[str, ...]
    not_checked: tuple[str, ...]
    unreachable: int


class Check(Document, Sparse):
    """``clusterctl check --json``.

    ``run`` is absent in ``report.json`` and with ``--replay``, ``ready_to_launch`` if nothing was checked that a launch
    needs, ``strict`` without ``--strict``: the drift that makes the exit code 1.
    """

    schema_: Literal["clusterctl.check/1"] = Field(default="clusterctl.check/1", alias="schema")
    nodes: tuple[CheckedNode, ...]
    summary: CheckSummary
    drift: tuple[Deviation, ...]
    ready_to_launch: ReadyToLaunch | None = None
    strict: tuple[StrictFailure, ...] | None = None
    run: str | None = None
