"""Variants in the document ``clusterctl.bench/1``: medians over repeats, their spread, and the ratio to the first."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Model):
    """One figure over the repeats. ``cv`` is the coefficient of variation; None: measured once."""

    median: float
    least: float
    greatest: float
    cv: float | None


class VariantRow(_Model):
    """One message size of a collective; ``ratio`` is the speed relative to the first variant, by time."""

    size_bytes: int
    time_us: Spread
    busbw_gbps: Spread | None
    wrong: int | None
    ratio: float | None


class VariantPoint(_Model):
    """One point of a scaling curve; ``sample`` is the counted unit, image or sequence."""

    np: int
    nodes: int
    sample: str
    samples_per_s: Spread
    efficiency: float | None
    ratio: float | None


class VariantResult(_Model):
    """One variant: its settings, its number of repeats, its figures, their keys, and the proof of one repeat.

    ``proof`` has the entries ``expected``, ``gpudirect``, ``nccl`` and ``stragglers`` of a plain run's proof.
    """

    name: str
    library: str | None
    environment: dict[str, str]
    repeats: int
    rows: tuple[VariantRow, ...] = ()
    points: tuple[VariantPoint, ...] = ()
    keys: dict[str, dict[str, str]] = {}
    proof: dict[str, Any] = {}
