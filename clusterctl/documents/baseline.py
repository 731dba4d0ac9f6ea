"""``runs baseline``: baselines and their files, and the catalogue of published figures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


class BaselineSeries(Part):
    """The repeats of one figure, one value per run; ``size_bytes`` None: the throughput of a training."""

    size_bytes: int | None
    unit: str
    # No figure is ever below a NaN.
    values: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(min_length=1)


class BaselineEntry(Part):
    """All figures of one key, with the ids of their runs."""

    key: dict[str, str]
    runs: tuple[str, ...]
    series: tuple[BaselineSeries, ...]


class BaselineFile(Document):
    """A baseline: its file in ``baselines/``, and ``clusterctl runs baseline show --json``."""

    schema_: Literal["clusterctl.baseline/1"] = Field(default="clusterctl.baseline/1", alias="schema")
    name: str
    entries: tuple[BaselineEntry, ...]


class ListedBaseline(Part):
    """One baseline of the list; ``entries`` is the number of its keys."""

    name: str
    entries: int
    runs: tuple[str, ...]


class Baselines(Document):
    """``clusterctl runs baseline list --json``."""

    schema_: Literal["clusterctl.baselines/1"] = Field(default="clusterctl.baselines/1", alias="schema")
    baselines: tuple[ListedBaseline, ...]


class BaselineRemoved(Document):
    """``clusterctl runs baseline remove --json``."""

    schema_: Literal["clusterctl.baseline-removed/1"] = Field(
        default="clusterctl.baseline-removed/1", alias="schema"
    )
    name: str
    file: str


class Published(Part):
    """One published bus bandwidth, GB/s."""

    hardware: str
    """A word in the GPU's name."""
    collective: str
    np: int
    nodes: int
    size_bytes: int
    busbw_gbps: float
    provenance: Literal["measured-by-us", "vendor", "third-party"]
    source: str


class Catalogue(Document):
    """``clusterctl runs baseline catalogue --json``."""

    schema_: Literal["clusterctl.catalogue/1"] = Field(default="clusterctl.catalogue/1", alias="schema")
    rows: tuple[Published, ...]
