"""The files of a recording: their names, their schema, and its version."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "clusterctl.record/1"
MANIFEST = "record.json"
INVENTORY = "inventory.json"
REPORT = "report.json"
EARLIER = "earlier.json"
SCRUBBED = "scrubbed.txt"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RecordedAnswer(_Part):
    """One run of the probe: the files with its output, and its times (controller's, seconds since the epoch)."""

    nonce: str = Field(pattern=r"^[A-Za-z0-9]{8,128}$")
    as_root: bool
    returncode: int
    stdout: str
    stderr: str
    started_s: float
    ended_s: float


class RecordedFailure(_Part):
    """The reason why a node has no facts."""

    kind: str
    message: str
    hint: str | None = None


class RecordedNode(_Part):
    """The answers of one node; ``failure`` is set for a node without facts."""

    name: str
    answers: tuple[RecordedAnswer, ...] = ()
    refusal: str | None = None
    failure: RecordedFailure | None = None
    scrubbed: dict[str, int] = Field(default_factory=dict)
    """Number of secrets that were replaced, by kind."""


class Manifest(_Part):
    """The manifest: versions, the check's options, every node, and the SHA-256 of every other file."""

    schema_: Literal["clusterctl.record/1"] = Field(alias="schema")
    clusterctl: str
    python: str
    recorded_at: str
    only: tuple[str, ...] | None = None
    skip: tuple[str, ...] = ()
    nodes: tuple[RecordedNode, ...]
    files: dict[str, str]

    def to_document(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)
