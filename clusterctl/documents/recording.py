"""``check --record``: the manifest of a recording."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class RecordedAnswer(Part):
    """One run of the probe: the files with its output, and its times (controller's, seconds since the epoch)."""

    nonce: str = Field(pattern=r"^[A-Za-z0-9]{8,128}$")
    as_root: bool
    returncode: int
    stdout: str
    stderr: str
    started_s: float
    ended_s: float


class RecordedFailure(Part):
    """The reason why a node has no facts."""

    kind: str
    message: str
    hint: str | None = None


class RecordedNode(Part):
    """The answers of one node; ``failure`` is set for a node without facts."""

    name: str
    answers: tuple[RecordedAnswer, ...] = ()
    refusal: str | None = None
    failure: RecordedFailure | None = None
    scrubbed: dict[str, int] = Field(default_factory=dict)
    """Number of secrets that were replaced, by kind."""


class Manifest(Document):
    """``record.json`` of a recording: versions, options of the check, every node, SHA-256 of every other file."""

    schema_: Literal["clusterctl.record/1"] = Field(default="clusterctl.record/1", alias="schema")
    clusterctl: str
    python: str
    recorded_at: str
    only: tuple[str, ...] | None = None
    skip: tuple[str, ...] = ()
    nodes: tuple[RecordedNode, ...]
    files: dict[str, str]
