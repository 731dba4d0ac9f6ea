"""``runs export``, ``import`` and ``compare``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.kinds import ComparisonWord


def shown_figure(figure: float | None, unit: str | None) -> str:
    """Return a figure with its unit: ``355.5 GB/s``; ``-`` without one."""
    if figure is None:
        return "-"
    digits = 2 if figure < 10 else 1 if figure < 10_000 else 0
    return f"{figure:.{digits}f} {unit}"


class StoredRun(Part):
    """One benchmark; ``started_at`` is RFC 3339 in UTC, ``folder`` the path of the run folder.

    ``library`` names the libraries of all its variants. ``figure`` is its main figure, in ``unit``: the highest busbw
    in GB/s of a collective, images (or sequences) per second of a training at its largest number of ranks. ``key`` has
    every field that two figures must share to be comparable, at the largest number of ranks; null without a figure.
    """

    run: str
    started_at: str
    benchmark: str
    library: str | None
    launcher: str | None
    np: int | None
    nodes: int | None
    status: str
    key: dict[str, str] | None
    hardware: str | None
    figure: float | None
    unit: str | None
    versions: tuple[str, ...]
    clusterctl_version: str | None
    folder: str | None
    label: str | None

    @property
    def best(self) -> str:
        """Return the main figure with its unit: ``355.5 GB/s``; ``-`` without one."""
        return shown_figure(self.figure, self.unit)


class ExportedRun(StoredRun):
    """A benchmark with the command lines that were run, and the document that ``bench`` printed."""

    commands: tuple[str, ...]
    document: Mapping[str, Any]


class RunsExport(Document):
    """``clusterctl runs export --format json``."""

    schema_: Literal["clusterctl.runs-export/1"] = Field(default="clusterctl.runs-export/1", alias="schema")
    runs: list[ExportedRun]

    def document(self) -> dict[str, Any]:
        """Return the document with those of the runs unchanged, even if they are damaged."""
        return self.model_dump(by_alias=True)


class RunsImport(Document):
    """``clusterctl runs import --json``: the ids of the runs, and why others were refused."""

    schema_: Literal["clusterctl.runs-import/1"] = Field(default="clusterctl.runs-import/1", alias="schema")
    imported: tuple[str, ...]
    refused: tuple[str, ...]


class ComparedRun(Part):
    """One compared run, its name in the tables, and how often its figures were measured."""

    run: str
    name: str
    repeats: int


class Difference(Part):
    """A field of the keys in which the runs differ, with one value per run."""

    field: str
    values: tuple[str, ...]


class ComparedFigure(Sparse):
    """One run's figure: bus bandwidth and time of a collective, or the throughput of a training.

    ``ratio`` is relative to the first run. ``noise`` is the share that a difference must exceed; None: unknown, because
    both were measured once. ``repeats_needed``: how many repeats of both would decide an undecided difference.
    """

    busbw_gbps: float | None = None
    samples_per_s: float | None = None
    time_us: float | None = None
    ratio: float | None
    noise: float | None
    word: ComparisonWord | None
    repeats_needed: int | None = None


class ComparedLine(Sparse):
    """The figures of all runs at one message size (collective) or number of ranks (training)."""

    size_bytes: int | None = None
    np: int | None = None
    figures: tuple[ComparedFigure | None, ...]


class ComparisonDocument(Document):
    """``clusterctl runs compare --json``; ``comparable`` is false if keys differ or are unknown."""

    schema_: Literal["clusterctl.comparison/1"] = Field(default="clusterctl.comparison/1", alias="schema")
    comparable: bool
    runs: tuple[ComparedRun, ...]
    differences: tuple[Difference, ...]
    without_key: tuple[str, ...]
    lines: tuple[ComparedLine, ...]
