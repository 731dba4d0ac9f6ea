"""``explain``: the known errors in logs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.kinds import ErrorRole


class LogRead(Part):
    """One log that was read completely."""

    name: str
    lines: int
    size_bytes: int


class LogLine(Part):
    """A line of a log: the file's name as given, and the line's number from 1."""

    file: str
    line: int
    text: str


class UnexplainedLine(LogLine):
    """A line that looks like an error and that no known error explains.

    ``says`` is what its own words state (the name of an error, a status, a signal), ``next`` the next check, and
    ``source`` the document that defines those words; None if no table has them.
    """

    says: str | None = None
    next: str | None = None
    source: str | None = None


class Origin(Part):
    """A known fault or cause from which another error may follow: its name and its first line."""

    id: str
    file: str
    line: int


class KnownError(Sparse):
    """One known error: where it occurred, what it means, its likely cause, and what to do.

    ``cause`` of a symptom lists what is possible. ``may_follow``: the last fault or cause before a
    consequence; absent without one.
    ``gpus`` are PCI addresses, or indexes as NCCL counts them in a process.
    """

    id: str
    role: ErrorRole
    tool: str
    count: int
    first: LogLine
    last: LogLine
    hosts: tuple[str, ...]
    ranks: tuple[int, ...]
    gpus: tuple[str, ...] = ()
    may_follow: Origin | None = None
    meaning: str
    cause: str
    fix: str
    sources: tuple[str, ...]
    requirement: str | None
    check: str | None


class KnownCause(Part):
    """The most likely known cause of a failed run in its own logs, as ``explain`` names it.

    ``log`` is its first line; the file's name is relative to the run folder. ``role``: of a symptom, ``cause`` lists
    what is possible.
    """

    id: str
    role: ErrorRole = ErrorRole.CAUSE
    hosts: tuple[str, ...]
    cause: str
    fix: str
    log: LogLine


class Explain(Document):
    """``clusterctl explain --json``; ``summary`` is the number of findings of each role."""

    schema_: Literal["clusterctl.explain/1"] = Field(default="clusterctl.explain/1", alias="schema")
    files: tuple[LogRead, ...]
    findings: tuple[KnownError, ...]
    unexplained: tuple[UnexplainedLine, ...]
    summary: dict[ErrorRole, int]
