"""``render``: one artifact as text, and the values that it is made of."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.launch import PlannedLaunch


class NodeCommand(Part):
    """The command of one node."""

    name: str
    argv: tuple[str, ...]
    text: str


class Host(Part):
    """One line of a hostfile."""

    name: str
    slots: int


class LintFinding(Part):
    """One finding in a hostfile."""

    line: int
    message: str


class Render(Document, Sparse):
    """``clusterctl render ... --json``; which of the last fields are present depends on the artifact."""

    schema_: Literal["clusterctl.render/1"] = Field(default="clusterctl.render/1", alias="schema")
    artifact: str
    text: str
    argv: tuple[str, ...] | None = None
    nodes: tuple[NodeCommand, ...] | None = None
    hosts: tuple[Host, ...] | None = None
    findings: tuple[LintFinding, ...] | None = None
    launches: tuple[PlannedLaunch, ...] | None = None
