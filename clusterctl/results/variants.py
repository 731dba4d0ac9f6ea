"""The result of interleaved variants: medians, spreads and ratios from the results of all repeats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clusterctl.benchmarks.base import FaultKind
from clusterctl.benchmarks.scaling import Point, between_nodes, efficiency
from clusterctl.documents.bench import (
    BenchResult,
    ResultHalf,
    ResultPoint,
    ResultRow,
    Spread,
    VariantHalf,
    VariantPoint,
    VariantResult,
    VariantRow,
)
from clusterctl.documents.evidence import Calls
from clusterctl.documents.proof import HardwareHealth, Proof
from clusterctl.launch.measured import Interleaved, Repeated
from clusterctl.results import noise, proofs
from clusterctl.results.model import average_busbw, from_measured, status_of


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


def from_interleaved(found: Interleaved, run: str) -> BenchResult:
    """Return the result of one run with variants; its own rows and points are the first variant's medians."""
    results = [[from_measured(measured, run) for measured in one.runs] for one in found.variants]
    variants: list[VariantResult] = []
    for one, repeats in zip(found.variants, results, strict=True):
        if repeats:
            variants.append(_variant(one, repeats, variants[0] if variants else None))
    if variants:
        variants = [_refused(one, runs) for one, runs in zip(variants, found.variants, strict=False)]
        variants = _judged([variants[0], *(_comparable(one, variants[0]) for one in variants[1:])])
    first = results[0][0]
    proof = first.proof.model_copy(
        update={
            **{name: value for name, value in (variants[0].proof if variants else ()) if value is not None},
            "repeats": found.repeats,
            "failures": found.faults or None,
            "health": proofs.health_of_all(one.proof.health for one in variants),
        }
    )
    refused = proof.refused is not None
    return first.model_copy(
        update={
            "status": status_of(found.faults, proof),
            "rows": (rows := () if refused else tuple(_median_row(row, results[0]) for row in first.rows)),
            "avg_busbw_gbps": average_busbw(rows),
            "points": () if refused else tuple(_median_point(point, variants[0]) for point in first.points),
            "proof": proof,
            "variants": tuple(variants),
        }
    )


def _refused(variant: VariantResult, one: Repeated) -> VariantResult:
    """Return the variant without figures, but with the reason, if nothing proves one of its settings."""
    reasons = [
        fault.message for run in one.runs for fault in run.faults if fault.kind is FaultKind.SETTING_UNPROVEN
    ]
    if not reasons:
        return variant
    proof = variant.proof.model_copy(update={"refused": reasons[0]})
    return variant.model_copy(update={"rows": (), "points": (), "proof": proof})


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
                pairs[index, place[0], place[1]] = noise.Pair(ratio, *sides)
    found = dict(zip(pairs, noise.judge(list(pairs.values()), noise.FLOOR_INTERLEAVED), strict=True))

    def said(index: int, kind: str, at: int) -> dict[str, object]:
        one = found.get((index, kind, at))
        return {"noise": one.noise, "word": one.word} if one else {}

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


def _variant(one: Repeated, repeats: Sequence[BenchResult], first: VariantResult | None) -> VariantResult:
    rows = _rows(repeats, first)
    return VariantResult(
        name=one.variant.name,
        library=repeats[0].library,
        environment=dict(one.variant.environment),
        repeats=len(repeats),
        rows=tuple(rows),
        points=tuple(_points(repeats, first, one.runs[0].without_proof)),
        keys=repeats[0].proof.keys or {},
        proof=_proof(one, repeats, rows),
    )


def _proof(one: Repeated, repeats: Sequence[BenchResult], rows: Sequence[VariantRow]) -> Proof:
    """Return the proof: the medians' share of the expected bandwidth, and the path of the data.

    If the repeats took different paths, a repeat that left the fast path is reported.
    """
    found = [result.proof for result in repeats]
    slow = (p for p in found if p.gpudirect is not None and p.gpudirect.status != "proven")
    chosen = next(slow, found[0])
    medians = [(row.size_bytes, row.busbw_gbps.median) for row in rows if row.busbw_gbps is not None]
    return Proof(
        health=proofs.health_of_all(_numbered(p.health, number) for number, p in enumerate(found, 1)),
        gpudirect=chosen.gpudirect,
        nccl=chosen.nccl,
        paths=chosen.paths,
        usage=chosen.usage,
        sharing=chosen.sharing,
        expected=proofs.expected(one.runs[0], medians) if medians else None,
        stragglers=chosen.stragglers,
    )


def _numbered(health: HardwareHealth | None, repeat: int) -> HardwareHealth | None:
    """Return what the hardware reported, each event with its repeat."""
    if health is None:
        return None
    events = tuple(event.model_copy(update={"repeat": repeat}) for event in health.events)
    return health.model_copy(update={"events": events})


def _of_size(repeats: Sequence[BenchResult], size_bytes: int) -> list[ResultRow]:
    return [row for result in repeats for row in result.rows if row.size_bytes == size_bytes]


def _rows(repeats: Sequence[BenchResult], first: VariantResult | None) -> list[VariantRow]:
    found = []
    for size_bytes in [row.size_bytes for row in repeats[0].rows]:
        same = _of_size(repeats, size_bytes)
        times = [row.time_us for row in same if row.time_us is not None]
        speeds = [row.busbw_gbps for row in same if row.busbw_gbps is not None]
        wrongs = [row.wrong for row in same if row.wrong is not None]
        if not times:
            continue
        time_us = spread(times)
        like = next((row for row in first.rows if row.size_bytes == size_bytes), None) if first else None
        found.append(
            VariantRow(
                size_bytes=size_bytes,
                time_us=time_us,
                busbw_gbps=spread(speeds) if speeds else None,
                in_place=_in_place([row.in_place for row in same if row.in_place is not None]),
                wrong=sum(wrongs) if wrongs else None,
                ratio=_ratio(like.time_us.median, time_us.median) if like else (None if first else 1.0),
            )
        )
    return found


def _in_place(halves: Sequence[ResultHalf]) -> VariantHalf | None:
    times = [half.time_us for half in halves if half.time_us is not None]
    speeds = [half.busbw_gbps for half in halves if half.busbw_gbps is not None]
    if not times:
        return None
    return VariantHalf(time_us=spread(times), busbw_gbps=spread(speeds) if speeds else None)


def _points(
    repeats: Sequence[BenchResult], first: VariantResult | None, without_proof: frozenset[int]
) -> list[VariantPoint]:
    found: list[VariantPoint] = []
    for point in repeats[0].points:
        same = [p.samples_per_s for result in repeats for p in result.points if p.np == point.np]
        speed = spread(same)
        like = next((p for p in first.points if p.np == point.np), None) if first else None
        # This number of ranks cannot use the variant's settings.
        like = None if point.np in without_proof else like
        # Efficiency is relative to the point with one rank, which may be missing.
        single = speed if point.np == 1 else next((p.samples_per_s for p in found if p.np == 1), None)
        found.append(
            VariantPoint(
                np=point.np,
                nodes=point.nodes,
                sample="image" if point.images_per_s is not None else "sequence",
                samples_per_s=speed,
                efficiency=efficiency(speed.median, single.median, point.np) if single else None,
                loss_first=_median([p.loss_first for r in repeats for p in r.points if p.np == point.np]),
                loss=_median([p.loss for r in repeats for p in r.points if p.np == point.np]),
                ratio=_ratio(speed.median, like.samples_per_s.median) if like else (None if first else 1.0),
            )
        )
    curve = [Point(point.np, point.nodes, point.samples_per_s.median) for point in found]
    across = {figure.np: figure.efficiency for figure in between_nodes(curve)}
    return [p.model_copy(update={"efficiency_between_nodes": across.get(p.np)}) for p in found]


def _ratio(one: float, other: float) -> float | None:
    return one / other if other > 0 else None


def _median(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _median_row(row: ResultRow, repeats: Sequence[BenchResult]) -> ResultRow:
    same = _of_size(repeats, row.size_bytes)
    wrongs = [one.wrong for one in same if one.wrong is not None]
    return ResultRow(
        size_bytes=row.size_bytes,
        time_us=_median([one.time_us for one in same]),
        algbw_gbps=_median([one.algbw_gbps for one in same]),
        busbw_gbps=_median([one.busbw_gbps for one in same]),
        wrong=sum(wrongs) if wrongs else None,
        in_place=_median_half([one.in_place for one in same if one.in_place is not None]),
    )


def _median_half(halves: Sequence[ResultHalf]) -> ResultHalf | None:
    if not halves:
        return None
    return ResultHalf(
        time_us=_median([half.time_us for half in halves]),
        algbw_gbps=_median([half.algbw_gbps for half in halves]),
        busbw_gbps=_median([half.busbw_gbps for half in halves]),
    )


def _median_point(point: ResultPoint, first: VariantResult) -> ResultPoint:
    like = next(one for one in first.points if one.np == point.np)
    speed = like.samples_per_s.median
    counted = {f"{like.sample}s_per_s": speed, f"{like.sample}s_per_s_per_rank": speed / point.np}
    losses = {"loss_first": like.loss_first, "loss": like.loss}
    return ResultPoint(np=point.np, nodes=point.nodes, efficiency=like.efficiency, **losses, **counted)
