"""The figures of a run by variant: medians, spreads and ratios of all repeats."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from clusterctl.benchmarks import energy
from clusterctl.benchmarks.base import FaultKind
from clusterctl.benchmarks.energy import GpuEnergy
from clusterctl.benchmarks.key import configuration_key, library_version, mapping
from clusterctl.benchmarks.perf_output import Half, Row
from clusterctl.benchmarks.scaling import Point, between_nodes, efficiencies
from clusterctl.documents.bench import (
    Energy,
    Spread,
    VariantHalf,
    VariantPoint,
    VariantResult,
    VariantRow,
    WallTime,
)
from clusterctl.documents.evidence import Calls
from clusterctl.documents.proof import HardwareHealth, VariantProof, health_of_all
from clusterctl.launch.measured import Interleaved, Measured, Repeated
from clusterctl.results import noise, proofs
from clusterctl.trust import usage


def spread(values: Sequence[float]) -> Spread:
    """Return the values, their median, their bounds, and their coefficient of variation (of the sample)."""
    mean = statistics.fmean(values)
    cv = statistics.stdev(values) / mean if len(values) > 1 and mean > 0 else None
    return Spread(
        median=statistics.median(values),
        least=min(values),
        greatest=max(values),
        cv=cv,
        values=tuple(values),
    )


def variants_of(found: Interleaved) -> tuple[VariantResult, ...]:
    """Return the figures of each variant that was measured, the first variant's without a comparison."""
    variants: list[VariantResult] = []
    in_graphs = _in_graphs([one for one in found.variants if one.runs])
    for one in found.variants:
        if one.runs:
            variants.append(_variant(one, variants[0] if variants else None, in_graphs))
    if not variants:
        return ()
    variants = [_refused(one, runs) for one, runs in zip(variants, found.variants, strict=False)]
    first, *others = variants
    return tuple(_judged([first, *(_comparable(one, first) for one in others)]))


def _refused(variant: VariantResult, one: Repeated) -> VariantResult:
    """Return the variant without figures, but with the reason, if nothing proves one of its settings."""
    reasons = [
        fault.message for run in one.runs for fault in run.faults if fault.kind is FaultKind.SETTING_UNPROVEN
    ]
    if not reasons:
        return variant
    proof = variant.proof.model_copy(update={"refused": reasons[0]})
    return variant.model_copy(update={"rows": (), "points": (), "energy": (), "proof": proof})


def _comparable(variant: VariantResult, first: VariantResult) -> VariantResult:
    """Return the variant without ratios if NCCL alone was measured instead of ``nccl+ccore``.

    If it chose the same algorithms as the first variant, the proof says so.
    """
    if any(one.library == "nccl+ccore" and _took_nothing(one) for one in (variant, first)):
        return variant.model_copy(
            update={
                "rows": tuple(row.model_copy(update={"ratio": None}) for row in variant.rows),
                "points": tuple(point.model_copy(update={"ratio": None}) for point in variant.points),
            }
        )
    own, base = _algorithms(variant), _algorithms(first)
    usage = variant.proof.usage
    if usage is None or not variant.environment or variant.proof.refused or not own or own != base:
        return variant
    same = usage.model_copy(update={"same_algorithms_as": first.name})
    return variant.model_copy(update={"proof": variant.proof.model_copy(update={"usage": same})})


def _algorithms(variant: VariantResult) -> set[Calls]:
    return set(variant.proof.usage.algorithms) if variant.proof.usage else set()


def _judged(variants: Sequence[VariantResult]) -> list[VariantResult]:
    """Return the variants with the noise of each ratio, and whether the difference exceeds it."""
    first = variants[0]
    base = {("rows", row.size_bytes): (row.time_us, first.repeats) for row in first.rows}
    base |= {("points", point.np): (point.samples_per_s, first.repeats) for point in first.points}
    pairs: dict[tuple[int, str, int], noise.Pair] = {}
    for index, variant in enumerate(variants[1:], 1):
        figures = [(("rows", row.size_bytes), row.time_us, row.ratio) for row in variant.rows]
        figures += [(("points", point.np), point.samples_per_s, point.ratio) for point in variant.points]
        for place, figure, ratio in figures:
            if ratio:
                sides = _scatter(*base[place]), _scatter(figure, variant.repeats)
                apart = noise.do_not_touch(base[place][0], figure)
                pairs[index, place[0], place[1]] = noise.Pair(ratio, *sides, apart)
    found = dict(zip(pairs, noise.judge(list(pairs.values()), noise.FLOOR_INTERLEAVED), strict=True))

    def said(index: int, kind: str, at: int) -> dict[str, object]:
        one = found.get((index, kind, at))
        return {"noise": one.noise, "word": one.word, "repeats_needed": one.repeats} if one else {}

    return [
        variant.model_copy(
            update={
                "rows": tuple(r.model_copy(update=said(index, "rows", r.size_bytes)) for r in variant.rows),
                "points": tuple(p.model_copy(update=said(index, "points", p.np)) for p in variant.points),
            }
        )
        for index, variant in enumerate(variants)
    ]


def _scatter(spread: Spread, repeats: int) -> noise.Scatter | None:
    return noise.scatter_of_repeats(spread.cv, repeats)


def _took_nothing(variant: VariantResult) -> bool:
    return not any(sum(path.taken.values()) for path in variant.proof.paths or ())


def _in_graphs(variants: Sequence[Repeated]) -> frozenset[int] | None:
    """Return the sizes at which every repeat of every variant timed a CUDA graph; None for one variant."""
    if len(variants) < 2:
        return None
    runs = [run for one in variants for run in one.runs if run.sweep is not None]
    sizes = [{row.size_bytes for row in run.sweep.rows if row.graph_us} for run in runs if run.sweep]
    return frozenset(set.intersection(*sizes)) if sizes else frozenset()


def _variant(one: Repeated, first: VariantResult | None, in_graphs: frozenset[int] | None) -> VariantResult:
    rows = _rows(one.runs, first, in_graphs)
    evidence = [proofs.of_repeat(run) for run in one.runs]
    return VariantResult(
        name=one.variant.name,
        library=one.runs[0].library,
        environment=dict(one.variant.environment),
        repeats=len(one.runs),
        rows=rows,
        points=_points(one.runs, first),
        energy=_energy(one.runs),
        walls=_walls(one.runs),
        keys=_keys(one.runs[0]) if one.runs[0].settings else {},
        proof=_proof(one.runs[0], evidence, rows),
    )


def _proof(measured: Measured, evidence: Sequence[VariantProof], rows: Sequence[VariantRow]) -> VariantProof:
    """Return the proof: the medians' share of the expected bandwidth, and the path of the data.

    If the repeats took different paths, a repeat that left the fast path is reported.
    """
    slow = (p for p in evidence if p.gpudirect is not None and p.gpudirect.status != "proven")
    chosen = next(slow, evidence[0])
    medians = [(row.size_bytes, max(row.bandwidths)) for row in rows if row.bandwidths]
    several = len(evidence) > 1
    return VariantProof(
        health=health_of_all(
            _numbered(p.health, number) if several else p.health for number, p in enumerate(evidence, 1)
        ),
        gpudirect=chosen.gpudirect,
        nccl=chosen.nccl,
        paths=chosen.paths,
        usage=chosen.usage,
        sharing=chosen.sharing,
        expected=proofs.expected(measured, medians) if medians else None,
        stragglers=chosen.stragglers,
    )


def _numbered(health: HardwareHealth | None, repeat: int) -> HardwareHealth | None:
    """Return what the hardware reported, each event with its repeat."""
    if health is None:
        return None
    events = tuple(event.model_copy(update={"repeat": repeat}) for event in health.events)
    return health.model_copy(update={"events": events})


def _rows(
    runs: Sequence[Measured], first: VariantResult | None, in_graphs: frozenset[int] | None
) -> tuple[VariantRow, ...]:
    """Return the medians by size; variants are compared by graphs at the sizes ``in_graphs``, else by single calls.

    None: there is one variant, whose rows stay as its program reports them.
    """
    base = {row.size_bytes: row.time_us.median for row in first.rows} if first else {}
    sweeps = [_by_size(run) for run in runs]
    found = []
    for place in sweeps[0]:
        size_bytes, _ = place
        as_reported = [sweep[place] for sweep in sweeps if place in sweep]
        graph = in_graphs is None or size_bytes in in_graphs
        same = as_reported if in_graphs is None else [row.started(in_graph=graph) for row in as_reported]
        calls = [row.calls_us for row in as_reported if graph and row.calls_us is not None]
        figures = _half([_first_half(row) for row in same])
        if figures is None:
            continue
        both = [row.in_place for row in same if row.out_of_place.time_us is not None]
        wrongs = [h.wrong for row in same for h in (row.out_of_place, row.in_place) if h.wrong is not None]
        found.append(
            VariantRow(
                size_bytes=size_bytes,
                time_us=figures.time_us,
                calls_us=spread(calls) if calls else None,
                algbw_gbps=figures.algbw_gbps,
                busbw_gbps=figures.busbw_gbps,
                in_place=_half(both),
                wrong=sum(wrongs) if wrongs else None,
                ratio=_relative(base.get(size_bytes), figures.time_us.median) if first else 1.0,
            )
        )
    return tuple(found)


def _by_size(run: Measured) -> dict[tuple[int, int], Row]:
    """Return the rows of a sweep by size, and by their number among those of this size.

    Processes that did not connect to each other print every size once each: these rows are not repeats.
    """
    counts: Counter[int] = Counter()
    found = {}
    for row in run.sweep.rows if run.sweep is not None else ():
        found[row.size_bytes, counts[row.size_bytes]] = row
        counts[row.size_bytes] += 1
    return found


def _first_half(row: Row) -> Half:
    """Return the half that a row reports first: out of place, if the program measured it."""
    return row.out_of_place if row.out_of_place.time_us is not None else row.in_place


def _half(halves: Sequence[Half]) -> VariantHalf | None:
    """Return one half of a row over the repeats; None if no repeat has a time."""
    times = [half.time_us for half in halves if half.time_us is not None]
    if not times:
        return None
    return VariantHalf(
        time_us=spread(times),
        algbw_gbps=_spread_of([half.algbw_gbps for half in halves]),
        busbw_gbps=_spread_of([half.busbw_gbps for half in halves]),
    )


def _spread_of(values: Sequence[float | None]) -> Spread | None:
    found = [value for value in values if value is not None]
    return spread(found) if found else None


def _points(runs: Sequence[Measured], first: VariantResult | None) -> tuple[VariantPoint, ...]:
    base = {point.np: point.samples_per_s.median for point in first.points} if first else {}
    entries = runs[0].points
    of_ranks = {
        entry.point.np: [one for run in runs for one in run.points if one.point.np == entry.point.np]
        for entry in entries
    }
    speeds = {np: spread([one.point.samples_per_s for one in same]) for np, same in of_ranks.items()}
    curve = [Point(one.point.np, one.point.nodes, speeds[one.point.np].median) for one in entries]
    across = between_nodes(curve)
    found = []
    for entry, point, share in zip(entries, curve, efficiencies(curve), strict=True):
        # Too few ranks cannot use the variant's settings.
        like = None if point.np in runs[0].without_proof else base.get(point.np)
        found.append(
            VariantPoint(
                np=point.np,
                nodes=point.nodes,
                sample=entry.run.sample,
                samples_per_s=speeds[point.np],
                efficiency=share,
                efficiency_between_nodes=across.get(point.np),
                loss_first=_median([one.run.loss_first for one in of_ranks[point.np]]),
                loss=_median([one.run.loss for one in of_ranks[point.np]]),
                communication=_median([one.run.communication for one in of_ranks[point.np]]),
                ratio=_relative(point.samples_per_s, like) if first else 1.0,
            )
        )
    return tuple(found)


def _walls(runs: Sequence[Measured]) -> tuple[WallTime, ...] | None:
    """Return the wall times of a program of the user over the repeats; None for other benchmarks."""
    if runs[0].request.program is None:
        return None
    seconds: dict[tuple[int, int], list[float]] = {}
    for wall in (wall for run in runs for wall in run.walls):
        seconds.setdefault((wall.np, wall.nodes), []).append(round(wall.seconds, 3))
    return tuple(
        WallTime(np=np, nodes=nodes, seconds=spread(values)) for (np, nodes), values in seconds.items()
    )


def _energy(runs: Sequence[Measured]) -> tuple[Energy, ...]:
    """Return the energy per GB of a sweep, or per step at each number of ranks of a training; none of a program."""
    if runs[0].request.program is not None:
        return ()
    sweep = runs[0].sweep
    if sweep is not None:
        if not sweep.rows:
            return ()
        reports = [[one.energy for one in run.usage] for run in runs]
        return (_of_repeats(len(runs[0].ranks), "GB", reports),)
    found = []
    for np in (entry.point.np for entry in runs[0].points):
        same = [one.run for run in runs for one in run.points if one.point.np == np]
        reports = [[one.energy for one in usage.of_reports(run.usage)] for run in same]
        found.append(_of_repeats(np, "step", reports))
    return tuple(found)


def _of_repeats(np: int, per: Literal["step", "GB"], repeats: Sequence[Sequence[GpuEnergy | str]]) -> Energy:
    """Return the energy over the repeats, each with the reports of all ranks; ``np`` 0: no rank reported."""
    units = [energy.per_unit(one, np) for one in repeats]
    reason = next((one for one in units if isinstance(one, str)), None)
    if reason is not None:
        return Energy(np=np, per=per, joules=None, reason=reason)
    scale = 1e9 if per == "GB" else 1.0
    joules = spread([one * scale for one in units if not isinstance(one, str)])
    return Energy(np=np, per=per, joules=joules, reason=None)


def _relative(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other is not None and other > 0 else None


def _median(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return proofs.rounded(statistics.median(found)) if found else None


def _keys(measured: Measured) -> dict[str, dict[str, str]]:
    """Return the key of every figure by its number of ranks (as text, because JSON keys are strings)."""
    placed = {launch["np"]: launch["node_of_rank"] for launch in measured.launches}
    return {
        str(np): configuration_key(
            benchmark=measured.request.benchmark,
            np=np,
            nodes=nodes,
            library=measured.library,
            library_version=library_version(measured.library, lines),
            launcher=measured.launcher,
            map_by=mapping(placed.get(np, ())),
            hardware=measured.hardware,
            settings=measured.settings,
        )
        for np, nodes, lines in _keyed(measured)
    }


def _keyed(measured: Measured) -> Iterable[tuple[int, int, tuple[str, ...]]]:
    if measured.sweep is not None:
        ranks = measured.sweep.ranks
        if not measured.sweep.rows:
            return  # a failed run has no figure
        # Nodes in containers may share a host name, so the nodes are counted by the launch's placement.
        placed = [len(launch["placements"]) for launch in measured.launches]
        yield len(ranks), max(placed, default=len({rank.host for rank in ranks})), measured.sweep.libraries
        return
    # A point with one rank uses no library, but belongs to the same curve.
    lines = tuple(line for entry in measured.points for line in entry.run.libraries)
    for entry in measured.points:
        yield entry.point.np, entry.point.nodes, lines
    for wall in measured.walls if not measured.points else ():
        yield wall.np, wall.nodes, ()
