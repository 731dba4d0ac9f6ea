"""``up`` and ``down``: containers on nodes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.explain import KnownCause


class StartedContainer(Part):
    """The container of one node, and where its SSH server answers; ``memlock`` is KiB or ``unlimited``."""

    name: str
    address: str
    port: int | None
    container: str
    memlock: str
    docker_run: str
    notes: tuple[str, ...]


class NotStarted(Part):
    """A node whose container did not start."""

    name: str
    error: str
    hint: str | None


class Up(Document, Sparse):
    """``clusterctl up --json``; also ``launch.json`` of its run.

    ``inventory`` and ``nodes`` are present if all containers started; otherwise ``failed``, and in ``left`` the nodes
    on which a container may still run. ``cause`` is the known cause in what the nodes reported; omitted without one.
    """

    schema_: Literal["clusterctl.up/1"] = Field(default="clusterctl.up/1", alias="schema")
    run: str
    inventory: str | None = None
    nodes: tuple[StartedContainer, ...] | None = None
    failed: tuple[NotStarted, ...] | None = None
    left: tuple[str, ...] | None = None
    cause: KnownCause | None = None


class NotRemoved(Part):
    """A node whose container could not be removed."""

    name: str
    error: str


class Down(Document):
    """``clusterctl down --json``; ``run`` is null if no containers were up."""

    schema_: Literal["clusterctl.down/1"] = Field(default="clusterctl.down/1", alias="schema")
    run: str | None
    removed: int
    failed: tuple[NotRemoved, ...]
