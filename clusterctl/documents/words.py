"""The words that several documents use for a status, and the error of a node."""

from __future__ import annotations

from enum import Enum

from clusterctl.documents.base import Part


class Success(str, Enum):
    """Tell whether a command succeeded as a whole."""

    OK = "ok"
    FAILED = "failed"


class ErrorKind(str, Enum):
    """Name the kinds of errors that keep a node from answering."""

    DNS = "dns"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_CHANGED = "host-key-changed"
    AUTH = "auth"
    SUDO = "sudo"
    LOST = "lost"
    DEADLINE = "deadline"
    PROTOCOL = "protocol"
    ERROR = "error"


class NodeError(Part):
    """The reason why a node has no result, and what to do about it."""

    kind: ErrorKind
    message: str
    hint: str | None


class NodeErrorWithoutHint(Part):
    """The reason why a node has no result, as run folders keep it."""

    kind: ErrorKind
    message: str


class ComparisonWord(str, Enum):
    """Tell how a figure compares with that of the first run."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "within noise"
    ONCE = "measured once"
