"""The results of one measurement, and the settings and hardware under which they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterctl.benchmarks.base import Fault, RankProof
from clusterctl.benchmarks.collective import CollectiveSweep, program_of
from clusterctl.benchmarks.key import GRAPH_IF_FASTER, hardware_name
from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.benchmarks.perf_output import Sweep
from clusterctl.benchmarks.scaling import Point
from clusterctl.benchmarks.training import TrainingRun
from clusterctl.documents.evidence import RankPath, SlowPart
from clusterctl.launch import choose
from clusterctl.launch import fast_path as trust
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.plan import RequestPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.variants import Variant, tunes
from clusterctl.trust.health import FleetHealth
from clusterctl.trust.usage import RankUsage

_PROGRAMS = ("nccl-tests", "collective_core")


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """Hold one point of a scaling curve and its training run."""

    point: Point
    run: TrainingRun


@dataclass(frozen=True, slots=True)
class Wall:
    """Hold how long the launcher of a user's program ran, with so many ranks on so many nodes."""

    np: int
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold all results of one request; ``launches`` is the content of launch.json."""

    request: Request
    library: str | None
    launcher: str | None
    sweep: Sweep | None
    points: tuple[TrainingPoint, ...]
    ranks: tuple[RankProof, ...]
    launches: tuple[dict[str, Any], ...]
    faults: tuple[Fault, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the measurement: reported by the ranks for a training, by clusterctl for a collective."""
    hardware: str | None = None
    """The name of the GPU or CPU on which the ranks ran."""
    trust: trust.Trust | None = None
    """What the last launch proves about its fast path."""
    neighbours: Neighbourhood = field(default_factory=Neighbourhood)
    """The rates between neighbouring ranks of a collective, if they were measured; they show which node is slow."""
    slow: tuple[SlowPart, ...] | None = None
    """What pairs of nodes confirmed as slow; None if they were not measured for that."""
    paths: tuple[RankPath, ...] = ()
    """How collective_core moved the ranks' CUDA tensors, or which calls it took in front of NCCL."""
    usage: tuple[RankUsage, ...] = ()
    """The variables that each rank read, and its algorithms, as reported by the last launch."""
    proven: Mapping[str, str] = field(default_factory=dict)
    """What proves each setting of a variant."""
    without_proof: frozenset[int] = frozenset()
    """The numbers of ranks of a training that are too few to use the variant's settings."""
    walls: tuple[Wall, ...] = ()
    """The wall times of a program of the user."""
    health: FleetHealth | None = None
    """What happened to the hardware of the nodes during the run; None if no rank was started."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """Hold one variant and the results of its repeats."""

    variant: Variant
    runs: tuple[Measured, ...]


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Hold all variants of one run in the requested order; the first fault ended the run."""

    request: Request
    variants: tuple[Repeated, ...]
    repeats: int
    faults: tuple[Fault, ...]

    @property
    def launches(self) -> tuple[dict[str, Any], ...]:
        """Return every launch in the form of launch.json, with its variant and repeat."""
        return tuple(
            {"variant": repeated.variant.name, "repeat": number, **launch}
            for repeated in self.variants
            for number, measured in enumerate(repeated.runs, 1)
            for launch in measured.launches
        )


class PartlyMeasured(KeyboardInterrupt):
    """A person interrupted a measurement; ``measured`` holds the part that was finished."""

    def __init__(self, measured: Measured | Interleaved) -> None:
        super().__init__()
        self.measured = measured


def environment_of(plan: LaunchPlan, chosen: RequestPlan) -> dict[str, Any]:
    """Return the setting ``environment``: the library's variables from options and inventory, without secrets."""
    names = {name for a in chosen.answers for name in a.node.env if tunes(name, chosen.library)}
    names |= chosen.environment.keys()
    said = {name: value for name, value in plan.env if name in names and value is not None}
    return {"environment": said} if said else {}


def hardware_of(ranks: Sequence[RankProof], answers: Sequence[Readiness]) -> str | None:
    """Return the name of the GPU or CPU on which the ranks ran."""
    cpus = {answer.cpu_model for answer in answers if answer.cpu_model}
    return hardware_name([rank.device for rank in ranks], cpus)


def collective_settings(
    sweep: Sweep, swept: CollectiveSweep, program: choose.Program, answers: Sequence[Readiness]
) -> dict[str, Any]:
    """Return the settings of a collective sweep; what is unknown is None."""
    first = sweep.rows[0] if sweep.rows else None
    named = [name for line in sweep.libraries for name in _PROGRAMS if line.startswith(f"{name} version")]
    return {
        "program": "torch" if program.torch else next(iter(named), program_of(swept.name)),
        "torch": answers[0].torch if program.torch else None,
        "datatype": first.dtype if first else None,
        "redop": first.redop if first else None,
        "cuda_graph": GRAPH_IF_FASTER if "-G" in program.words else False,
        "iters": swept.iters,
        "warmup_iters": swept.warmup_iters,
        "check": swept.check,
        "ranks_per_gpu": sweep.ranks_per_gpu,
        "gpus_per_process": swept.gpus if swept.gpus > 1 else None,
    }
