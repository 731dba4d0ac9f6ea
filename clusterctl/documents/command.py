"""``run`` and ``exec``: a command on every node, or in every container."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.kinds import FailureKind


class CutBytes(Part):
    """The bytes at the end of each stream that were read but not kept."""

    stdout: int
    stderr: int


class Answer(Sparse):
    """The exit status and output of a command on one node, or the reason why it has none.

    ``cut`` is present if the node wrote more than ``--max-output``.
    """

    name: str
    error: str | None = None
    kind: FailureKind | None = None
    status: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    cut: CutBytes | None = None


class Run(Document):
    """``clusterctl run --json``."""

    schema_: Literal["clusterctl.run/1"] = Field(default="clusterctl.run/1", alias="schema")
    command: str
    nodes: tuple[Answer, ...]


class Exec(Document):
    """``clusterctl exec --json``: the nodes are containers."""

    schema_: Literal["clusterctl.exec/1"] = Field(default="clusterctl.exec/1", alias="schema")
    command: str
    nodes: tuple[Answer, ...]
