"""``accept``: what every row measured on every node, and which nodes are accepted; also ``results.json`` of its run."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.explain import KnownCause
from clusterctl.documents.words import NodeError, StrictFailure


class Tier(str, Enum):
    """Group the rows by their cost: seconds without load, minutes, minutes at full load, hours at full load."""

    SANITY = "sanity"
    VALIDATION = "validation"
    PERFORMANCE = "performance"
    STRESS = "stress"


class RowStatus(str, Enum):
    """Tell what became of a row on a node.

    ``measured``: it measured values to which no threshold applies, and which no other device has. ``not-run`` is never
    a pass. ``not-applicable``: the node does not have what the row measures.
    """

    OK = "ok"
    MEASURED = "measured"
    WARN = "warn"
    FAIL = "fail"
    NOT_RUN = "not-run"
    NOT_APPLICABLE = "not-applicable"


class AcceptStatus(str, Enum):
    """Tell whether every node is accepted: a row was measured, and none failed or did not run."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not-accepted"


class AcceptValue(Part):
    """One value; ``limit`` is what its threshold wants (``>= 715``), null without one, and ``source`` its origin.

    ``middle`` is what the value was compared with, if that decided: the median of ``compared`` values of equal
    hardware, or the better one of two (of three nodes that were measured in pairs, the best one).
    """

    field: str
    device: str
    hardware: str
    value: float
    unit: str
    higher_is_better: bool
    status: RowStatus
    limit: str | None
    source: str | None
    middle: float | None
    compared: int
    samples: tuple[float, ...]
    again: float | None
    """The second measurement of a value that differed from the fleet."""


class AcceptedRow(Part):
    """One row on one node; of several repeats (``--for``), the first one with the worst status.

    ``tool`` names the program with its version, ``log`` the file in the run folder with its output.
    """

    row: str
    tier: Tier
    status: RowStatus
    reason: str
    repeat: int
    repeats: int
    seconds: float
    tool: str
    command: str
    log: str
    values: tuple[AcceptValue, ...]


class AcceptedNode(Part):
    """One node; ``status`` is the worst of its rows. ``error`` is the reason why it could not be reached."""

    name: str
    status: RowStatus
    accepted: bool
    error: NodeError | None
    rows: tuple[AcceptedRow, ...]


class AcceptRowTitle(Part):
    """A row that was requested, and what it measures.

    ``also_measured_by`` is a row that measures the same without special tools: if it ran, a node is accepted although
    this one did not run.
    """

    row: str
    title: str
    tier: Tier
    also_measured_by: str | None


class Accept(Sparse, Document):
    """``clusterctl accept --json``: the verdicts of all rows on all nodes; ``accepted`` names the accepted nodes.

    ``false_alarms_per_run`` is the share of healthy fleets in which the comparison between nodes may name one.
    ``cause`` is the known cause in the logs of programs and launches that failed; omitted without one. ``strict`` has
    the warnings that make the exit code 1 with ``--strict``; omitted without the option.
    """

    schema_: Literal["clusterctl.accept/1"] = Field(default="clusterctl.accept/1", alias="schema")
    run: str
    status: AcceptStatus
    cause: KnownCause | None = None
    tier: Tier
    repeats: int
    duration_s: float
    false_alarms_per_run: float
    site_thresholds: str | None
    rows: tuple[AcceptRowTitle, ...]
    nodes: tuple[AcceptedNode, ...]
    accepted: tuple[str, ...]
    strict: tuple[StrictFailure, ...] | None = None


class AcceptRequest(Document):
    """``accept.json`` of a run: what was requested, so that ``--resume`` continues it. Times are in seconds."""

    schema_: Literal["clusterctl.accept-request/1"] = Field(
        default="clusterctl.accept-request/1", alias="schema"
    )
    tier: Tier
    rows: tuple[str, ...]
    site_thresholds: str | None
    repeat_for_s: float
    repeat_until: float | None
    """When the repeats end, since the epoch; null until they begin."""


class PlannedThreshold(Part):
    """A threshold that would apply: its condition, its verdict, the hardware it is for (none: any), and its source."""

    when: str
    verdict: RowStatus
    hardware: tuple[str, ...]
    source: str


class PlannedRow(Part):
    """A row that would run on ``nodes``; ``not_run`` and ``not_applicable`` have the reasons of the other nodes."""

    row: str
    title: str
    tier: Tier
    nodes: tuple[str, ...]
    hardware: tuple[str, ...]
    not_run: dict[str, str]
    not_applicable: dict[str, str]
    thresholds: tuple[PlannedThreshold, ...]


class AcceptPlan(Document):
    """``clusterctl accept --dry-run --json``: the rows and thresholds that would apply; nothing was measured."""

    schema_: Literal["clusterctl.accept-plan/1"] = Field(default="clusterctl.accept-plan/1", alias="schema")
    rows: tuple[PlannedRow, ...]
