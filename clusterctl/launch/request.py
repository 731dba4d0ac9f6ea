"""Define what to measure, before any node is contacted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterctl.benchmarks.training import Training
from clusterctl.benchmarks.user_program import UserProgram
from clusterctl.launch.base import MapBy
from clusterctl.launch.environment import Library


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what to measure: a user's program if ``program`` is set, a training if ``training`` is, else a collective.

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
    program: UserProgram | None = None

    @property
    def benchmark(self) -> str:
        if self.program is not None:
            return self.program.name
        return self.collective if self.training is None else self.training.name

    @property
    def is_collective(self) -> bool:
        """Return whether single operations are measured, at several message sizes."""
        return self.training is None and self.program is None
