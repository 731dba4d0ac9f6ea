"""The sentence on top of a benchmark: what follows from its figures, and which command is next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from clusterctl.documents.bench import (
    BenchResult,
    BenchStatus,
    VariantPoint,
    VariantResult,
    VariantRow,
)
from clusterctl.documents.kinds import ComparisonWord, Effect, FaultKind
from clusterctl.documents.proof import Proof
from clusterctl.report.scale import duration
from clusterctl.report.text.failures import in_a_sentence
from clusterctl.report.text.table import size
from clusterctl.results import words
from clusterctl.results.noise import MOST_REPEATS
from clusterctl.results.record import Record
from clusterctl.results.words import Word
from clusterctl.text.typed_inventory import filled
from clusterctl.text.wording import counted, some

_FULL = 0.9
"""From this efficiency on, no reason for the rest is given."""
_LINEAR = 0.8
"""From this efficiency on, communication is not the bottleneck (Alibaba Cloud's guide to ACSpeed)."""
_LEAST_GBPS = 0.005
"""Bandwidths have two decimals: a lower one is zero, so the least time is the figure."""
_LOST_BETWEEN = 0.05
"""So much lower than within a node, the efficiency between nodes is the reason."""


def sentence(record: Record) -> str:
    """Return the verdict, the figure that decides it, and what to do; of a comparison, the outcome of each variant."""
    result = record.result
    word, finer = words.of_bench(result)
    alone = len(result.variants) == 1 and result.status is BenchStatus.OK
    if of_a_program(result) and (alone or result.status is BenchStatus.FAILED):
        return "; ".join(filter(None, _program(record)))
    compared = len(result.variants) > 1 and result.status is BenchStatus.OK and finer != words.TURNS
    if compared and result.proof.min_efficiency is None:
        return "; ".join(against(one, result.variants[0]) for one in result.variants[1:])
    return f"{words.with_finer(word, finer)}: {'; '.join(filter(None, _parts(record, word, finer)))}"


def of_a_program(result: BenchResult) -> bool:
    """Tell whether the run was one of a user's program."""
    return any(one.walls is not None for one in result.variants)


def _program(record: Record) -> Iterator[str]:
    """Yield how a program of the user ended, or what ended it."""
    result = record.result
    if result.status is BenchStatus.FAILED:
        faults = list(result.proof.failures or ())
        before, found, culprit = faults[0].message.partition(" s: ") if faults else ("", "", "")
        # Who stands still comes before the time in which the launch did not end.
        if found and faults[0].kind is FaultKind.DEADLINE:
            faults[0] = replace(faults[0], message=f"{culprit}; {before} s")
        yield in_a_sentence(faults) or f"{result.benchmark} failed"
        return
    wall = max(result.walls, key=lambda one: one.np)
    yield f"{result.benchmark} ended on {counted(wall.np, 'rank')} in {_seconds(wall.seconds.median)}"
    last = next((point for point in result.points if point.np == wall.np), None)
    if last is None:
        return
    yield f"{last.samples_per_s.median:.6g} {last.unit}"
    if last.np > 1 and last.efficiency:
        yield from _training(record)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 100 else f"{value:.1f} s"


def _parts(record: Record, word: Word, finer: str) -> Iterator[str]:
    result = record.result
    proof = result.proof
    nodes = record.summary.nodes or 1
    if result.status is BenchStatus.FAILED:
        yield in_a_sentence(proof.failures or ()) or "no figure"
    elif finer == words.TURNS:
        yield "the ranks took turns on a GPU, so these figures are not those of the library; start MPS as below"
    elif result.status is BenchStatus.DOUBTFUL:
        yield from _doubtful(result)
        yield _locate(nodes)
    elif result.status is BenchStatus.BELOW_BASELINE and proof.baseline is not None:
        below = max(proof.baseline.below, key=lambda one: one.loss)
        what = "the throughput" if below.size_bytes is None else f"bus bandwidth at {size(below.size_bytes)}"
        yield (
            f"{len(proof.baseline.below)} of {counted(proof.baseline.judged, 'figure')} below the baseline "
            f"{proof.baseline.name}, most {what} with {below.np} ranks by {100 * below.loss:.0f} %"
        )
        yield _locate(nodes)
    elif result.status is BenchStatus.NOT_JUDGED:
        yield from _not_judged(proof)
    elif any(one.points for one in result.variants):
        yield from _training(record)
    else:
        yield from _collective(record, word)


def _doubtful(result: BenchResult) -> Iterator[str]:
    for one in (result.proof.slow or ())[:2]:
        who = f"link {' - '.join(one.nodes)}" if len(one.nodes) == 2 else one.nodes[0]
        rail = f" rail {one.place}" if one.place or one.interface else ""
        yield f"{who}{rail} is {100 * (1 - one.ratio):.0f} % slower than pairs beside it, and all ranks wait for it"
    health = result.health
    events = [one for one in health.events if one.effect is not Effect.NOTE] if health else []
    said = list(dict.fromkeys(f"{one.node} {one.place}: {one.what}".replace(" :", ":") for one in events))
    if said:
        yield f"the figures may not be those of healthy hardware ({some(said, 2)})"


def _not_judged(proof: Proof) -> Iterator[str]:
    found = proof.baseline
    if found is None or found.verdict == "ok":
        yield "no efficiency was measured, so --min-efficiency judged nothing; it compares one rank with more ranks"
        return
    yield f"the baseline {found.name} judged none of {counted(found.figures, 'figure')}"
    yield found.reason or ""
    yield found.hint or ""


def _locate(nodes: int) -> str:
    if nodes > 2:
        return filled("clusterctl locate INVENTORY names what is slow", "")
    return filled("clusterctl check INVENTORY shows the nodes", "")


def _training(record: Record) -> Iterator[str]:
    result = record.result
    judged = [
        (one, point) for one in result.variants for point in one.points if point.np > 1 and point.efficiency
    ]
    if not judged:
        last = result.points[-1]
        yield f"{last.samples_per_s.median:.1f} {last.unit} with {counted(last.np, 'rank')}"
        yield _unjudged(result.proof, "")
        return
    wanted = result.proof.min_efficiency
    if wanted is None:
        variant, point = judged[-1]
    else:
        variant, point = min(judged, key=lambda one: one[1].efficiency or 0.0)
    share = _percent(point.efficiency)
    name = f"{variant.name}: " if len(result.variants) > 1 else ""
    said = f"{name}{share} of linear with {point.np} ranks"
    if wanted is not None:
        how = "below" if (point.efficiency or 0.0) < wanted else "at least"
        said += f", {how} the {100 * wanted:g} % of --min-efficiency"
    why = _straggler(variant, point) or ((point.efficiency or 0.0) < _FULL and _loss(variant, point, record))
    said += f": {why}" if why else ""
    yield said
    if point.communication is not None:
        is_it = "" if _is_bottleneck(point) else "not "
        yield f"communication is {is_it}the bottleneck, it takes {_percent(point.communication)} of a step"
    efficiency = point.efficiency or 0.0
    if efficiency >= _LINEAR:
        yield _unjudged(result.proof, "give --min-efficiency 85, or ") if wanted is None else ""
        return
    # A slow run is not to be recorded as a baseline: its cause comes first.
    if not variant.proof.sharing and "clusterctl" not in said and (wanted is None or efficiency < wanted):
        yield _cause_of_loss(point, record.summary.nodes or 1)
    if wanted is None and result.proof.baseline is None:
        yield "not judged: no --min-efficiency"


def _cause_of_loss(point: VariantPoint, nodes: int) -> str:
    """Return the command that shows where the efficiency of a training goes."""
    if point.communication is not None and not _is_bottleneck(point):
        return filled("clusterctl check INVENTORY judges the settings of the hosts", "")
    if nodes > 2:
        return _locate(nodes)
    return filled("clusterctl bench INVENTORY --collective all_reduce measures communication alone", "")


def _is_bottleneck(point: VariantPoint) -> bool:
    """Tell whether a low efficiency is mostly communication: at least half of the share of a step that is lost."""
    efficiency, share = point.efficiency or 0.0, point.communication or 0.0
    return efficiency < _LINEAR and share >= (1.0 - efficiency) / 2


def _percent(share: float | None) -> str:
    """Return a share in whole percent, rounded down, so that none seems to reach a threshold that it missed."""
    return f"{math.floor(100 * (share or 0.0) + 1e-9)} %"


def _straggler(variant: VariantResult, point: VariantPoint) -> str:
    """Return the slowest rank that is slower than its peers; empty if there is none."""
    found = (variant.proof.stragglers or {}).get(str(point.np), ())
    worst = max(found, key=lambda one: one.loss, default=None)
    return (
        ""
        if worst is None
        else f"rank {worst.rank} on {worst.host or '?'} is {100 * worst.loss:.0f} % below the median"
    )


def _loss(variant: VariantResult, point: VariantPoint, record: Record) -> str:
    """Return where the rest of the efficiency most likely goes, as far as the run shows it."""
    if variant.proof.sharing:
        return "the ranks share a GPU"
    between = point.efficiency_between_nodes
    inside = [one.efficiency for one in variant.points if one.nodes == 1 and one.np > 1 and one.efficiency]
    if between is not None and inside and between < inside[-1] - _LOST_BETWEEN:
        return f"most is lost between nodes ({_percent(between)} there); {_locate(record.summary.nodes or 3)}"
    if any("cpu" in one.device.lower() for one in record.result.proof.ranks or ()):
        found = ("communication or shared cores", "perhaps shared cores")
    else:
        host = "a host that feeds its GPUs too slowly"
        found = (f"communication, or {host}", f"perhaps {host}")
    return found[0] if point.communication is None else "" if _is_bottleneck(point) else found[1]


def _collective(record: Record, word: Word) -> Iterator[str]:
    rows, expected = record.result.rows, record.result.evidence.expected
    if expected is not None and expected.share is not None and word is not Word.MEASURED:
        at = f" at {size(expected.size_bytes)}" if expected.size_bytes else ""
        yield (
            f"{expected.busbw_gbps or 0:.0f} GB/s{at}, {100 * expected.share:.0f} % of the "
            f"{expected.expected_busbw_gbps or 0:.0f} GB/s that this hardware allows"
        )
        if word is Word.GOOD:
            yield filled("clusterctl accept INVENTORY judges the nodes", "")
        else:
            yield expected.reason if expected.verdict == "impossible" else _locate(record.summary.nodes or 1)
        return
    speeds = [(row.busbw_gbps.median, row.size_bytes) for row in rows if row.busbw_gbps is not None]
    fast, at_bytes = max(speeds, default=(0.0, 0))
    if fast >= _LEAST_GBPS:
        yield f"up to {fast:.2f} GB/s at {size(at_bytes)}"
    elif rows:
        least = min(rows, key=lambda row: row.time_us.median)
        yield f"{duration(least.time_us.median)} at {size(least.size_bytes)}"
    else:
        yield "no figure"
    yield expected.reason if expected is not None else ""
    yield _unjudged(record.result.proof, "")


def _unjudged(proof: Proof, otherwise: str) -> str:
    """Return why the figures are not judged, and what judges them; ``otherwise`` is another way, which comes first."""
    if proof.baseline is not None:
        return ""
    record = "if you expect no more, record it with clusterctl runs baseline record NAME"
    return f"not judged: {otherwise or 'no baseline; '}{record}"


def against(one: VariantResult, first: VariantResult) -> str:
    """Return how a variant compares with the first one."""
    if one.proof.refused:
        return f"{one.name}: {one.proof.refused}"
    figures: list[VariantRow | VariantPoint] = [*one.rows, *one.points]
    said = outcomes(figures, "size" if one.rows else "point", one.repeats)
    if not said:
        why = ", because no rate was printed: --rate finds one" if one.walls and not one.points else ""
        return f"{one.name} against {first.name}: no ratio{why}"
    return f"{one.name} against {first.name}: {said}"


class Compared(Protocol):
    """A figure and how it compares with that of the first run or variant."""

    @property
    def ratio(self) -> float | None:
        """Return the speed relative to the first one."""

    @property
    def word(self) -> ComparisonWord | None:
        """Return what the repeats allow to say of it."""

    @property
    def repeats_needed(self) -> int | None:
        """Return how many repeats would decide what is undecided."""


def outcomes(figures: Sequence[Compared], of: str, repeats: int) -> str:
    """Return how figures compare with the first ones, each ``of`` a size or a point; empty if none was compared."""
    judged = [(figure.word, figure.ratio) for figure in figures if figure.word and figure.ratio]
    counts = Counter(word for word, _ in judged)
    parts = []
    for word in (ComparisonWord.FASTER, ComparisonWord.SLOWER):
        ratios = [ratio for its, ratio in judged if its is word]
        if ratios:
            parts.append(
                f"{word.value} at {_of(len(ratios), len(judged), of)} ({_span(ratios)} times the speed)"
            )
    if same := counts[ComparisonWord.SAME]:
        parts.append(f"within noise at {_of(same, len(judged), of)}")
    if once := counts[ComparisonWord.ONCE]:
        ratios = [ratio for its, ratio in judged if its is ComparisonWord.ONCE]
        how = f"{_span(ratios)} times the speed at {_of(once, len(judged), of)}"
        parts.append(f"{how}, measured once: --repeats 5 tells this from noise")
    if open_ := counts[ComparisonWord.UNDECIDED]:
        where = "" if open_ == len(judged) else f" at {_of(open_, len(judged), of)}"
        after = f" after {counted(repeats, 'repeat')}"
        ratios = [ratio for its, ratio in judged if its is ComparisonWord.UNDECIDED]
        parts.append(f"undecided{where}{after} ({_span(ratios)} times the speed): {_decides(figures)}")
    return ", ".join(parts)


def _of(count: int, total: int, noun: str) -> str:
    return f"{'all ' if count == total > 1 else ''}{counted(count, noun)}"


def _span(ratios: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{one:.2f}" for one in (min(ratios), max(ratios)))
    return " to ".join(ends)


def _decides(figures: Sequence[Compared]) -> str:
    known = [one.repeats_needed for one in figures if one.word is ComparisonWord.UNDECIDED]
    numbers = [one for one in known if one is not None]
    if len(numbers) < len(known):
        return f"even {MOST_REPEATS} repeats may not decide, measure while the machines are idle"
    return f"--repeats {max(numbers)} might decide"
