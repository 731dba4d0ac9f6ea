"""``artifacts.json`` and ``launch.json`` of a benchmark run, and ``bench --preflight``."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.evidence import Fault
from clusterctl.documents.explain import KnownCause
from clusterctl.documents.words import Success


class Command(Sparse):
    """One command line that was run; ``variant`` and ``repeat`` are present with ``--compare``."""

    variant: str | None = None
    repeat: int | None = None
    np: int | None = None
    line: str


class Artifacts(Document):
    """``artifacts.json`` of a benchmark: the command lines that were run."""

    schema_: Literal["clusterctl.artifacts/1"] = Field(default="clusterctl.artifacts/1", alias="schema")
    commands: tuple[Command, ...]


class Placed(Part):
    """The ranks of one node; ``host`` is its own name, ``address`` the one that the launcher uses."""

    node: str
    host: str
    address: str
    ranks: int


class Launched(Sparse):
    """One launch; the last three fields are null if it did not start.

    ``env`` has the names of secrets without values; null is a variable that is passed on by name.
    """

    variant: str | None = None
    repeat: int | None = None
    np: int
    placements: tuple[Placed, ...]
    node_of_rank: tuple[str, ...]
    argv: tuple[str, ...]
    env: dict[str, str | None]
    timeout_s: float
    returncode: int | None
    duration_s: float | None
    deadline_passed: bool | None


class Launch(Document):
    """``launch.json`` of a benchmark: each command, the placement of its ranks, and how it ended."""

    schema_: Literal["clusterctl.launch/1"] = Field(default="clusterctl.launch/1", alias="schema")
    launches: tuple[Launched, ...]


class RungStatus(str, Enum):
    """Name the outcomes of one check before a launch."""

    OK = "ok"
    FAILED = "failed"
    NOT_NEEDED = "not-needed"
    NOT_REACHED = "not-reached"


class Rung(Part):
    """One check before a launch."""

    name: str
    status: RungStatus
    detail: str


class Preflight(Sparse, Document):
    """``clusterctl bench --preflight --json``; also ``preflight.json`` of its run.

    ``cause`` is the known cause of a failure in the run's logs; omitted without one.
    """

    schema_: Literal["clusterctl.preflight/1"] = Field(default="clusterctl.preflight/1", alias="schema")
    run: str
    library: str | None
    launcher: str | None
    status: Success
    cause: KnownCause | None = None
    rungs: tuple[Rung, ...]
    failures: tuple[Fault, ...]


class PlannedLaunch(Sparse):
    """One launch of ``bench --dry-run`` or ``render --bench``, which leaves out the first three fields.

    ``files`` has null for a program of clusterctl instead of its text. ``brought`` has the path and the size in bytes
    of each file that ``launch --bring`` copies to every node; omitted without that option.
    """

    variant: str | None = None
    launcher: str | None = None
    library: str | None = None
    np: int
    placements: tuple[Placed, ...]
    node_of_rank: tuple[str, ...]
    argv: tuple[str, ...]
    env: dict[str, str | None]
    timeout_s: float
    line: str
    files: dict[str, str | None]
    brought: dict[str, int] | None = None


class PlannedLaunches(Document):
    """``clusterctl bench --dry-run --json``."""

    schema_: Literal["clusterctl.launch-plan/1"] = Field(default="clusterctl.launch-plan/1", alias="schema")
    status: Success
    launches: tuple[PlannedLaunch, ...]
    failures: tuple[Fault, ...]
