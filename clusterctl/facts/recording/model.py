"""What a recording holds: its files' names, their shapes, and the version of both."""

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
    """One exec of the probe: where its bytes lie, and when it was (the controller's seconds since the epoch)."""

    nonce: str = Field(pattern=r"^[A-Za-z0-9]{8,128}$")
    as_root: bool
    returncode: int
    stdout: str
    stderr: str
    started_s: float
    ended_s: float


class RecordedFailure(_Part):
    """Why a node gave no facts."""

    kind: str
    message: str
    hint: str | None = None


class RecordedNode(_Part):
    """What one node answered; ``failure`` in place of facts."""

    name: str
    answers: tuple[RecordedAnswer, ...] = ()
    refusal: str | None = None
    failure: RecordedFailure | None = None
    scrubbed: dict[str, int] = Field(default_factory=dict)
    """How many secrets were taken out, by kind."""


class Manifest(_Part):
    """The recording's own file: versions, the check's options, every node, and every other file's SHA-256."""

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
