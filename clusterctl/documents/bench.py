"""``bench``: one measured collective or training, and its variants; also ``results.json`` of its run."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.explain import KnownCause
from clusterctl.documents.kinds import ComparisonWord
from clusterctl.documents.proof import Proof
from clusterctl.documents.words import Success


class Spread(Part):
    """One figure over the repeats. ``cv`` is the coefficient of variation; None: measured once.

    ``values`` has the figure of each repeat, in the order of measurement; results of older versions have none.
    """

    median: float
    least: float
    greatest: float
    cv: float | None
    values: tuple[float, ...] = ()


class VariantHalf(Part):
    """The in-place half of a row, over the repeats."""

    time_us: Spread
    busbw_gbps: Spread | None


class VariantRow(Part):
    """One message size of a collective; ``ratio`` is the speed relative to the first variant, by time.

    ``noise`` is the share that a difference must exceed to count, and ``word`` is the outcome. ``in_place`` is None
    unless the program measures both halves.
    """

    size_bytes: int
    time_us: Spread
    busbw_gbps: Spread | None
    in_place: VariantHalf | None = None
    wrong: int | None
    ratio: float | None
    noise: float | None = None
    word: ComparisonWord | None = None


class VariantPoint(Part):
    """One point of a scaling curve, as a row; ``sample`` is the counted unit, image or sequence.

    ``efficiency`` is relative to one rank, ``efficiency_between_nodes`` to one node with as many ranks per node.
    ``loss_first`` and ``loss`` are those of the first and last step, the median of the repeats.
    """

    np: int
    nodes: int
    sample: str
    samples_per_s: Spread
    efficiency: float | None
    efficiency_between_nodes: float | None = None
    loss_first: float | None = None
    loss: float | None = None
    ratio: float | None
    noise: float | None = None
    word: ComparisonWord | None = None


class VariantResult(Part):
    """One variant: its settings, its number of repeats, its figures, their keys, and the proof of one repeat."""

    name: str
    library: str | None
    environment: dict[str, str]
    repeats: int
    rows: tuple[VariantRow, ...] = ()
    points: tuple[VariantPoint, ...] = ()
    keys: dict[str, dict[str, str]] = Field(default_factory=dict)
    proof: Proof = Proof()


class ResultHalf(Part):
    """The in-place half of a row of nccl-tests."""

    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None


class ResultRow(Sparse):
    """One message size of a collective: out of place if the program measures it, otherwise in place.

    ``in_place`` is omitted from the document unless the program measures both.
    """

    OPTIONAL: ClassVar = frozenset({"in_place"})

    size_bytes: int
    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong: int | None
    """Wrong elements of both halves; None: not checked."""
    in_place: ResultHalf | None = None

    @property
    def bandwidths(self) -> tuple[float, ...]:
        """Return the bus bandwidths of the row, in GB/s."""
        halves = (self.busbw_gbps, self.in_place.busbw_gbps if self.in_place else None)
        return tuple(value for value in halves if value is not None)


class ResultPoint(Sparse):
    """One point of a scaling curve; efficiency relative to one rank, None if that was not measured.

    The samples are images or sequences; the fields of the other kind are omitted from the document. ``loss_first``
    and ``loss`` are the loss of the first and of the last step, the mean of all ranks.
    """

    OPTIONAL: ClassVar = frozenset(
        {
            *("images_per_s", "images_per_s_per_rank", "sequences_per_s", "sequences_per_s_per_rank"),
            *("loss_first", "loss"),
        }
    )

    np: int
    nodes: int
    images_per_s: float | None = None
    images_per_s_per_rank: float | None = None
    sequences_per_s: float | None = None
    sequences_per_s_per_rank: float | None = None
    efficiency: float | None
    loss_first: float | None = None
    loss: float | None = None

    @property
    def samples_per_s(self) -> float:
        """Return the images or sequences per second of all ranks together."""
        return (self.sequences_per_s if self.images_per_s is None else self.images_per_s) or 0.0


class BenchStatus(str, Enum):
    """Tell whether a run succeeded and met its baseline.

    ``not-judged``: it succeeded, but none of its figures could be compared with the baseline. ``doubtful``: errors of
    the hardware grew during the run or a CPU quota held a rank back (``proof.health``), or a node or link was confirmed
    as slow (``proof.slow``), so that its figures may not be those of healthy nodes.
    """

    OK = "ok"
    FAILED = "failed"
    BELOW_BASELINE = "below-baseline"
    NOT_JUDGED = "not-judged"
    DOUBTFUL = "doubtful"


class BenchResult(Sparse, Document):
    """``clusterctl bench --json``; also ``results.json`` of its run.

    ``proof`` has the placement of the ranks, their devices and library, and the failures. ``avg_busbw_gbps`` is the
    average bus bandwidth of nccl-tests, over all rows and both halves; omitted without rows. ``cause`` is the known
    cause of a failure in the run's logs; omitted without one.
    """

    OPTIONAL: ClassVar = frozenset({"avg_busbw_gbps", "cause"})

    schema_: Literal["clusterctl.bench/1"] = Field(default="clusterctl.bench/1", alias="schema")
    run: str
    benchmark: str
    library: str | None
    launcher: str | None
    status: BenchStatus
    cause: KnownCause | None = None
    rows: tuple[ResultRow, ...] = ()
    avg_busbw_gbps: float | None = None
    points: tuple[ResultPoint, ...] = ()
    proof: Proof = Proof()
    variants: tuple[VariantResult, ...] = ()
    """The interleaved variants of ``--compare``; omitted from the document without ``--compare``."""

    def document(self) -> dict[str, Any]:
        """Return the document as values that JSON can represent."""
        return self.model_dump(mode="json", by_alias=True, exclude=None if self.variants else {"variants"})


class Sweeps(Document):
    """``clusterctl bench --json`` with several collectives, types or operators.

    A failed sweep is the last one.
    """

    schema_: Literal["clusterctl.sweeps/1"] = Field(default="clusterctl.sweeps/1", alias="schema")
    status: Success
    results: tuple[dict[str, Any], ...]
    """Documents of the schema ``clusterctl.bench/1``."""


class Smoke(Document):
    """``clusterctl bench --smoke --json``: the second result is missing if the first run failed."""

    schema_: Literal["clusterctl.smoke/1"] = Field(default="clusterctl.smoke/1", alias="schema")
    status: Success
    results: tuple[dict[str, Any], ...]
    """Documents of the schema ``clusterctl.bench/1``."""
