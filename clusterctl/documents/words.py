"""The words that several documents use for a status, and the error of a node."""

from __future__ import annotations

from enum import Enum

from clusterctl.documents.base import Part
from clusterctl.documents.kinds import FailureKind


class Success(str, Enum):
    """Tell whether a command succeeded as a whole."""

    OK = "ok"
    FAILED = "failed"


class NodeError(Part):
    """The reason why a node has no result, and what to do about it."""

    kind: FailureKind
    message: str
    hint: str | None


class StrictFailure(Part):
    """What makes the exit code 1 only with ``--strict``: a row or a fact, its nodes, and what is wrong with it."""

    name: str
    nodes: tuple[str, ...]
    reason: str


class NodeErrorWithoutHint(Part):
    """The reason why a node has no result, as run folders keep it."""

    kind: FailureKind
    message: str
