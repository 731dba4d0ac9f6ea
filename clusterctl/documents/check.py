"""``check``: the verdicts and the drift of a fleet; also ``report.json`` of its run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.kinds import VerdictStatus
from clusterctl.documents.words import NodeError


class Verdict(Sparse):
    """The judgement of one requirement on one node."""

    OPTIONAL: ClassVar = frozenset({"warnings"})

    requirement: str
    status: VerdictStatus
    reason: str
    evidence: dict[str, Any]
    warnings: tuple[str, ...] | None = None


class CheckedNode(Part):
    """The verdicts of one node; none if it is not reachable."""

    name: str
    reachable: bool
    error: NodeError | None
    verdicts: tuple[Verdict, ...]


class CheckSummary(Part):
    """How many verdicts of each kind there are, and how many nodes are unreachable."""

    met: int
    unmet: int
    unknown: int
    not_applicable: int
    unreachable: int


class Deviation(Part):
    """Nodes whose value of a fact differs from that of the others; ``tie``: no value has the majority."""

    fact: str
    value: str
    others: str
    nodes: tuple[str, ...]
    tie: bool


class Check(Document, Sparse):
    """``clusterctl check --json``; ``run`` is absent in ``report.json`` and with ``--replay``."""

    OPTIONAL: ClassVar = frozenset({"run"})

    schema_: Literal["clusterctl.check/1"] = Field(default="clusterctl.check/1", alias="schema")
    nodes: tuple[CheckedNode, ...]
    summary: CheckSummary
    drift: tuple[Deviation, ...]
    run: str | None = None
