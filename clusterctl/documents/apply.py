"""``plan.json`` and ``apply.json`` of a bootstrap: what is to be done, and what was done."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.documents.words import NodeErrorWithoutHint


class Plan(Document):
    """``plan.json`` of a bootstrap: the steps of every node, without secrets.

    A step has the fields of its kind in ``clusterctl/requirements``.
    """

    schema_: Literal["clusterctl.plan/1"] = Field(default="clusterctl.plan/1", alias="schema")
    nodes: list[Any]


class RunState(str, Enum):
    """Name the states of a bootstrap run; ``cut``: a node has steps left."""

    STARTED = "started"
    FINISHED = "finished"
    CUT = "cut"


class AppliedStep(Part):
    """One step; ``key`` identifies it in all parts of the run."""

    requirement: str
    description: str
    status: AppliedStatus
    key: str
    round: int
    reason: str
    notes: tuple[str, ...]


class AppliedNode(Part):
    """The steps of one node in all parts of the run, and the error of the last part."""

    error: NodeErrorWithoutHint | None
    steps: tuple[AppliedStep, ...]


class RunOptions(Part):
    """The options that the run was started with, for ``--resume``."""

    only: tuple[str, ...] | None
    skip: tuple[str, ...]
    batch: str | None = None
    max_failures: str | None = None


class Apply(Document):
    """``apply.json`` of a bootstrap: its state and what became of each step.

    The file is replaced at the end of each part of the run.
    """

    schema_: Literal["clusterctl.apply/1"] = Field(default="clusterctl.apply/1", alias="schema")
    state: RunState
    operator: str
    state_dir: str
    options: RunOptions
    nodes: dict[str, AppliedNode]
