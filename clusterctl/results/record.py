"""One stored run: its document, and the values by which it is found and distinguished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property

from pydantic import ValidationError

from clusterctl import run_ids
from clusterctl.benchmarks.key import hardware_name
from clusterctl.documents.bench import BenchResult, VariantResult
from clusterctl.documents.measured_runs import ExportedRun, StoredRun
from clusterctl.documents.proof import Proof
from clusterctl.errors import ResultError
from clusterctl.text import model_errors

# A larger value is not a number of ranks, and may not fit into a database column.
_MOST_RANKS = 1 << 31


@dataclass(frozen=True)
class Record:
    """A summary, the document that ``bench --json`` printed, and the command lines that were run."""

    summary: StoredRun
    document: Mapping[str, object]
    commands: tuple[str, ...] = field(default=())

    @cached_property
    def result(self) -> BenchResult:
        """Return the document as a result; ResultError for one that this version cannot read."""
        try:
            return result_of(self.document)
        except ValueError as error:
            raise ResultError(
                f"clusterctl {self.summary.clusterctl_version or '(unknown)'} stored run {self.summary.run}, "
                f"and this version cannot read its result: {error}",
                hint="--json prints it as it was stored",
            ) from None

    @property
    def ranks(self) -> int | None:
        """Return the number of ranks of the last launch."""
        points = self.result.points
        return points[-1].np if points else self.summary.np

    def exported(self) -> ExportedRun:
        """Return the part of the run in a ``clusterctl.runs-export/1`` document."""
        return ExportedRun(**dict(self.summary), commands=self.commands, document=self.document)


def result_of(document: Mapping[str, object]) -> BenchResult:
    """Return a ``clusterctl.bench/1`` document as a result; ValueError names what is invalid."""
    try:
        return BenchResult.model_validate(dict(document))
    except ValidationError as error:
        raise ValueError(model_errors.first(error)) from None


def started_at(run: str) -> str:
    """Return the start of a run from its id, in RFC 3339; the current time if the id has none."""
    moment = run_ids.started_at(run) or datetime.now(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def figure_of(one: VariantResult) -> tuple[float | None, str | None]:
    """Return the main figure of a variant and its unit; None without figures."""
    if one.points:
        last = max(one.points, key=lambda point: point.np)
        return last.samples_per_s.median, last.unit
    if one.walls:
        return max(one.walls, key=lambda wall: wall.np).seconds.median, "s"
    speeds = [row.busbw_gbps.median for row in one.rows if row.busbw_gbps is not None]
    return (max(speeds), "GB/s") if speeds else (None, None)


def _size(proof: Proof, key: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the ranks and nodes of the largest launch that reported."""
    if key:
        np, nodes = int(key["np"]), int(key["nodes"])
        if max(np, nodes) >= _MOST_RANKS:
            raise ValueError(f"{np} ranks on {nodes} nodes"[:80])
        return np, nodes
    ranks = proof.ranks or ()
    return (len(ranks), len({rank.host for rank in ranks})) if ranks else (None, None)


def _versions(proof: Proof) -> tuple[str, ...]:
    torch = (proof.settings or {}).get("torch")
    return tuple(dict.fromkeys([*(proof.library or ()), *([f"torch {torch}"] if torch else [])]))


def _libraries(result: BenchResult) -> str | None:
    """Return the library of a run; those of all variants are joined by ``, ``."""
    found = dict.fromkeys(one.library for one in result.variants)
    return ", ".join(name for name in found if name is not None) or None


def from_document(
    document: Mapping[str, object],
    *,
    commands: Sequence[str] = (),
    folder: str | None = None,
    label: str | None = None,
) -> Record:
    """Return the record of a ``clusterctl.bench/1`` document; ValueError if it is invalid."""
    result = result_of(document)
    proof = result.proof
    figure, unit = figure_of(result.variants[0]) if result.variants else (None, None)
    key = result.variants[0].key if result.variants else {}
    np, nodes = _size(proof, key)
    summary = StoredRun(
        run=result.run,
        started_at=started_at(result.run),
        benchmark=result.benchmark,
        library=_libraries(result),
        launcher=result.launcher,
        np=np,
        nodes=nodes,
        status=result.status.value,
        key=key or None,
        hardware=proof.hardware or hardware_name(rank.device for rank in proof.ranks or ()),
        figure=figure,
        unit=unit,
        versions=_versions(proof),
        clusterctl_version=proof.clusterctl_version,
        folder=folder,
        label=label,
    )
    return Record(summary, document, tuple(commands))
