"""Define what to measure, before any node is contacted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterctl.benchmarks.training import Training
from clusterctl.launch.base import MapBy
from clusterctl.launch.environment import Library


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what to measure: a training if ``training`` is set, else a collective.

    ``sweep`` overrides single fields of the collective's default sweep; ``points`` None: clusterctl chooses them.
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
    """Variables for every rank, with precedence over all others (set by a variant)."""
    same_program: bool = False
    """Whether a collective always runs as the torch program, so that libraries can be compared."""
    proving: bool = False
    """Whether a variant of the run sets variables, so that every launch must report which variables it reads."""
    oversubscribe: bool = False
    """Whether several ranks may share a GPU."""
    pair_if_alone: bool = False
    """Whether a collective that would have one rank gets two, which share the GPU if there is one."""
    allow_slow_path: bool = False
    """Whether the run succeeds despite a proven fallback from GPUDirect RDMA."""

    @property
    def benchmark(self) -> str:
        return self.collective if self.training is None else self.training.name
