"""``bench``: one measured collective or training, and its variants; also ``results.json`` of its run."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.explain import KnownCause
from clusterctl.documents.kinds import ComparisonWord, SampleUnit
from clusterctl.documents.proof import HardwareHealth, Proof, VariantProof, health_of_all
from clusterctl.documents.words import Success


class Spread(Part):
    """One figure over the repeats, of which there may be one.

    ``cv`` is the coefficient of variation; None: measured once. ``values`` has the figure of each repeat, in the order
    of measurement.
    """

    median: float
    least: float
    greatest: float
    cv: float | None
    values: tuple[float, ...]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the smallest and the largest repeat; None if it was measured once."""
        return None if self.cv is None else (self.least, self.greatest)


class VariantHalf(Part):
    """The in-place half of a row, over the repeats; bandwidths in 10^9 bytes per second."""

    time_us: Spread
    algbw_gbps: Spread | None
    busbw_gbps: Spread | None


class VariantRow(Sparse):
    """One message size of a collective: out of place if the program measures it, otherwise in place.

    ``in_place`` is None unless the program measures both. ``wrong`` counts the wrong elements of both halves and of all
    repeats; None: not checked. ``ratio`` is the speed relative to the first variant, by time, ``noise`` the share that
    a difference must exceed to count, and ``word`` the outcome; ``repeats_needed``: how many repeats would decide an
    undecided difference. ``calls_us`` is the time of calls that Python started one by one, if CUDA graphs were timed,
    too; variants are compared by graphs at each size where all of them have one.
    """

    ALWAYS: ClassVar = frozenset({"in_place", "noise", "word"})

    size_bytes: int
    time_us: Spread
    calls_us: Spread | None = None
    algbw_gbps: Spread | None
    busbw_gbps: Spread | None
    in_place: VariantHalf | None = None
    wrong: int | None
    ratio: float | None
    noise: float | None = None
    word: ComparisonWord | None = None
    repeats_needed: int | None = None

    @property
    def bandwidths(self) -> tuple[float, ...]:
        """Return the bus bandwidths of both halves, in GB/s."""
        halves = (self.busbw_gbps, self.in_place.busbw_gbps if self.in_place else None)
        return tuple(one.median for one in halves if one is not None)


class VariantPoint(Sparse):
    """One point of a scaling curve, as a row; ``sample`` is the counted unit.

    ``efficiency`` is relative to one rank, ``efficiency_between_nodes`` to one node with as many ranks per node; None
    if that was not measured. ``loss_first`` and ``loss`` are those of the first and last step, the mean of all ranks
    and the median of the repeats. ``communication`` is the share of a step that goes when no gradients are exchanged;
    omitted where it was not measured.
    """

    ALWAYS: ClassVar = frozenset({"efficiency_between_nodes", "loss_first", "loss", "noise", "word"})

    np: int
    nodes: int
    sample: SampleUnit
    samples_per_s: Spread
    efficiency: float | None
    efficiency_between_nodes: float | None = None
    loss_first: float | None = None
    loss: float | None = None
    communication: float | None = None
    ratio: float | None
    noise: float | None = None
    word: ComparisonWord | None = None
    repeats_needed: int | None = None

    @property
    def unit(self) -> str:
        """Return the unit of the rates: ``images/s``."""
        return f"{self.sample}s/s"

    @property
    def samples_per_s_per_rank(self) -> float:
        """Return the images or sequences per second of one rank."""
        return self.samples_per_s.median / self.np


class Energy(Part):
    """The joules of all GPUs of a launch for one step of a training, or for 10^9 bytes of a sweep's messages.

    They are the growth of NVML's energy counters over the timed windows of a training, or over a whole sweep with its
    warm-ups and checks. ``joules`` None: not available, for the ``reason``.
    """

    np: int
    per: Literal["step", "GB"]
    joules: Spread | None
    reason: str | None


class WallTime(Part):
    """How long the launches of a user's program took, from the start of the launcher to its end, with so many ranks."""

    np: int
    nodes: int
    seconds: Spread


class VariantResult(Sparse):
    """One variant: its settings, its number of repeats, its figures, their keys, and what its repeats prove.

    ``keys`` are by the number of ranks: what two figures must share to be comparable.

    ``energy`` has an entry for each number of ranks. ``walls`` are the wall times of a user's program; omitted for
    other benchmarks.
    """

    name: str
    library: str | None
    environment: dict[str, str]
    repeats: int
    rows: tuple[VariantRow, ...] = ()
    points: tuple[VariantPoint, ...] = ()
    energy: tuple[Energy, ...] = ()
    walls: tuple[WallTime, ...] | None = None
    keys: dict[str, dict[str, str]] = Field(default_factory=dict)
    proof: VariantProof = VariantProof()

    @property
    def key(self) -> dict[str, str]:
        """Return the key of the largest number of ranks; empty without keys."""
        return self.keys[max(self.keys, key=int)] if self.keys else {}


class BenchStatus(str, Enum):
    """Tell whether a run succeeded and met its baseline.

    ``below-threshold``: a point of the scaling curve is less efficient than ``--min-efficiency`` asks for.
    ``not-judged``: it succeeded, but none of its figures could be compared with the baseline. ``doubtful``: errors of
    the hardware grew during the run or a CPU quota held a rank back (``health``), or a node or link was confirmed as
    slow (``proof.slow``), so that its figures may not be those of healthy nodes.
    """

    OK = "ok"
    FAILED = "failed"
    BELOW_BASELINE = "below-baseline"
    BELOW_THRESHOLD = "below-threshold"
    NOT_JUDGED = "not-judged"
    DOUBTFUL = "doubtful"


class BenchResult(Sparse, Document):
    """``clusterctl bench --json``; also ``results.json`` of its run.

    A run without ``--compare`` has one variant, and without ``--repeats`` one repeat; a run without figures may have
    none. ``proof`` has the placement of the ranks, their devices and library, and the failures; what proves the figures
    of a variant is in the variant. ``avg_busbw_gbps`` is
    the average bus bandwidth of nccl-tests, over all rows and both halves of the first variant; omitted without rows.
    ``cause`` is the known cause of a failure in the run's logs; omitted without one.
    """

    schema_: Literal["clusterctl.bench/1"] = Field(default="clusterctl.bench/1", alias="schema")
    run: str
    benchmark: str
    launcher: str | None
    status: BenchStatus
    cause: KnownCause | None = None
    avg_busbw_gbps: float | None = None
    proof: Proof = Proof()
    variants: tuple[VariantResult, ...] = ()

    @property
    def library(self) -> str | None:
        """Return the library of the first variant; None without one."""
        return self.variants[0].library if self.variants else None

    @property
    def rows(self) -> tuple[VariantRow, ...]:
        """Return the message sizes of the first variant."""
        return self.variants[0].rows if self.variants else ()

    @property
    def points(self) -> tuple[VariantPoint, ...]:
        """Return the scaling curve of the first variant."""
        return self.variants[0].points if self.variants else ()

    @property
    def walls(self) -> tuple[WallTime, ...]:
        """Return the wall times of a user's program, of the first variant; empty for other benchmarks."""
        return (self.variants[0].walls or ()) if self.variants else ()

    @property
    def evidence(self) -> VariantProof:
        """Return what the first variant proves; empty without variants."""
        return self.variants[0].proof if self.variants else VariantProof()

    @property
    def health(self) -> HardwareHealth | None:
        """Return what the hardware reported during the runs of all variants; None if it was not read."""
        return health_of_all(one.proof.health for one in self.variants)

    @property
    def unit(self) -> str:
        """Return the unit of the points of a scaling curve: ``images/s``."""
        return self.points[0].unit if self.points else "images/s"

    @property
    def repeats(self) -> int:
        """Return how often the first variant was measured; 1 without variants."""
        return self.variants[0].repeats if self.variants else 1


class Sweeps(Document):
    """``clusterctl bench --json`` with several collectives, types or operators.

    A failed sweep is the last one.
    """

    schema_: Literal["clusterctl.sweeps/1"] = Field(default="clusterctl.sweeps/1", alias="schema")
    status: Success
    results: tuple[dict[str, JsonValue], ...]
    """Documents of the schema ``clusterctl.bench/1``."""


class Smoke(Document):
    """``clusterctl bench --smoke --json``: the second result is missing if the first run failed."""

    schema_: Literal["clusterctl.smoke/1"] = Field(default="clusterctl.smoke/1", alias="schema")
    status: Success
    results: tuple[dict[str, JsonValue], ...]
    """Documents of the schema ``clusterctl.bench/1``."""
