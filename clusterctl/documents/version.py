"""``version``: what clusterctl consists of on this machine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class PythonVersion(Part):
    """The interpreter that runs clusterctl."""

    version: str
    executable: str


class CorePart(Part):
    """A compiled part of collective_core; ``path`` is null if it is not built."""

    name: str
    path: str | None


class CoreVersion(Part):
    """The installed collective_core; ``version`` is null if it is not installed."""

    version: str | None
    parts: tuple[CorePart, ...]
    programs: tuple[str, ...]


class Version(Document):
    """``clusterctl version --json``; ``packages``: versions of Python packages, null if not installed."""

    schema_: Literal["clusterctl.version/1"] = Field(default="clusterctl.version/1", alias="schema")
    clusterctl: str
    python: PythonVersion
    platform: str
    packages: dict[str, str | None]
    collective_core: CoreVersion
