"""What a user wants measured, before any node was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterctl.artifacts.env import Library
from clusterctl.benchmarks.training import Training
from clusterctl.launch.base import MapBy


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure: a training, else a collective.

    ``sweep`` overrides single fields of the collective's default sweep; ``points`` None: chosen.
    """

    training: Training | None
    sweep: dict[str, Any]
    np: int | None
    points: tuple[int, ...] | None
    library: Library | None
    launcher: str | None
    map_by: MapBy | None
    timeout_s: float
    collective: str = "all_reduce"
    environment: tuple[tuple[str, str], ...] = ()
    """Variables for every rank that win over all others (a variant's)."""
    same_program: bool = False
    """Whether a collective runs as the torch program whatever the library, so that libraries can be compared."""
    allow_slow_path: bool = False
    """Whether a proven fall-back from GPUDirect RDMA is no failure."""

    @property
    def benchmark(self) -> str:
        return self.collective if self.training is None else self.training.name
