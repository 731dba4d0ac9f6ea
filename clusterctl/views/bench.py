"""The view of ``bench``: what was measured and where, the table of its figures, and what proves them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Literal

from clusterctl.benchmarks.energy import NOT_READ
from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import (
    BenchResult,
    Energy,
    VariantHalf,
    VariantPoint,
    VariantResult,
    VariantRow,
)
from clusterctl.documents.measured_runs import shown_figure
from clusterctl.documents.proof import Proof, VariantProof
from clusterctl.inventory import nodeset
from clusterctl.report import csv, junit, prometheus
from clusterctl.report.line import Tone
from clusterctl.report.scale import duration
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.table import size
from clusterctl.report.view import Block, Case, CaseEnd, Item, Metric, Suite, Tile, View
from clusterctl.results import words
from clusterctl.results.record import Record, figure_of
from clusterctl.text.wording import counted
from clusterctl.views import bench_page, bench_sentence, bench_table, versions
from clusterctl.views.tones import OF_WORDS
from clusterctl.workloads.device.sensors import NO_GPU

COLUMNS = (
    *("run", "started_at", "benchmark", "library", "launcher", "status", "hardware", "np", "nodes"),
    *("size_bytes", "time_us", "algbw_gbps", "busbw_gbps", "wrong"),
    *("samples_per_s", "samples_per_s_per_rank", "efficiency", "key"),
    *("in_place_time_us", "in_place_algbw_gbps", "in_place_busbw_gbps", "avg_busbw_gbps"),
    *("variant", "efficiency_between_nodes", "loss_first", "loss", "ratio", "calls_us"),
    *("joules_per_gb", "joules_per_step", "wall_s", "word"),
)
"""The columns of the lines, for CSV."""
Form = Literal["csv", "junit", "prometheus"]
_OF_RUN = COLUMNS[:9]
_METRICS = {
    "clusterctl_bench_timestamp_seconds": "When the run began, in seconds since the epoch.",
    "clusterctl_bench_ok": "Whether the run succeeded: 1, or 0 if it failed, is doubtful or missed its baseline.",
    "clusterctl_bench_hardware_events": "Faults and limits that a node's hardware reported during the run, by effect.",
    "clusterctl_bench_busbw_bytes_per_second": "Bus bandwidth of a collective by message size.",
    "clusterctl_bench_time_seconds": "Time of one operation of a collective by message size.",
    "clusterctl_bench_calls_seconds": "Time of one operation started by Python, where CUDA graphs are timed, too.",
    "clusterctl_bench_samples_per_second": "Images, sequences or other samples that all ranks trained on per second.",
    "clusterctl_bench_efficiency_ratio": "Throughput divided by the throughput of one rank and by the number of ranks.",
    "clusterctl_bench_efficiency_between_nodes_ratio": (
        "Throughput divided by the throughput of one node with as many ranks per node, and by the number of nodes."
    ),
    "clusterctl_bench_loss": "Loss of the last step of a training, the mean of all ranks.",
    "clusterctl_bench_energy_per_byte_joules": "Energy of all GPUs per byte of the messages of a collective's sweep.",
    "clusterctl_bench_energy_per_step_joules": "Energy of all GPUs per step of a training.",
    "clusterctl_bench_speed_ratio": "Speed relative to the variant `against`; above 1 is faster.",
    "clusterctl_bench_comparison": "1 for the word that the repeats allow: faster, slower, within noise, undecided.",
    "clusterctl_bench_wall_seconds": "Time from the start of the launcher of a user's program to its end.",
}
MPS_COMMANDS = (
    "export CUDA_MPS_PIPE_DIRECTORY=/tmp/mps CUDA_MPS_LOG_DIRECTORY=/tmp/mps-log",
    "nvidia-cuda-mps-control -d",
)
# Longer names of variants do not fit into a heading.
_LONGEST_TITLE = 60


def view(record: Record, *, for_page: bool = False) -> View:
    """Return what people, CI servers, monitoring systems and spreadsheets see of a run.

    The blocks that only a page has room for are made ``for_page`` only, because an export makes many views.
    """
    result, summary = record.result, record.summary
    several = len(result.variants) > 1
    word, finer = words.of_bench(result)
    head, figures, proof = _blocks(result)
    turns, energy = _time_slices(result), _energy(result)
    software = _software(result)
    blocks: tuple[Block, ...] = (turns, head, figures, energy, software, proof)
    if for_page:
        below = bench_page.below(record)
        blocks = (turns, head, *bench_page.above(record), figures, energy, *below, software, proof)
    labels = _labels(record, result.variants[0].key if result.variants else {})
    return View(
        title=_title(record),
        run=summary.run,
        began=summary.started_at.replace("T", " ").replace("Z", " UTC"),
        word=words.with_finer(word, finer),
        tone=OF_WORDS[word],
        sentence=bench_sentence.sentence(record),
        tiles=tuple(_variant_tiles(result.variants) if several else _tiles(result)),
        failures=result.proof.failures or (),
        how=_measured(record),
        blocks=tuple(one for one in blocks if not one.is_empty),
        variants=tuple(one.name for one in result.variants),
        suites=lambda: (Suite(f"{summary.benchmark}.{summary.run}", tuple(_cases(record))),),
        metrics=lambda: _metrics(record, labels),
        lines=lambda: _lines(record),
        series=str(tuple(labels.items())),
    )


def _monitored(views: Iterable[View]) -> Iterator[Metric]:
    """Yield the metrics of the newest view of each configuration; the views are given newest first."""
    newest: dict[str, View] = {}
    for one in views:
        newest.setdefault(one.series, one)
    for one in newest.values():
        yield from one.metrics()


def form(name: Form, views: Sequence[View]) -> str:
    """Return the views, given newest first, as a file of this form."""
    if name == "csv":
        return csv.render(COLUMNS, (line for one in views for line in one.lines()))
    if name == "junit":
        return junit.render("clusterctl bench", (suite for one in views for suite in one.suites()))
    return prometheus.render(_monitored(views))


def made(name: Form, record: Record) -> View:
    """Return the view of a run whose part for this form is made now, so that an error in it concerns this run alone."""
    found = view(record)
    if name == "csv":
        lines = tuple(found.lines())
        return replace(found, lines=lambda: lines)
    if name == "junit":
        suites = tuple(found.suites())
        return replace(found, suites=lambda: suites)
    metrics = tuple(found.metrics())
    return replace(found, metrics=lambda: metrics)


def _title(record: Record) -> str:
    """Return one line with benchmark, ranks, nodes and hardware."""
    summary = record.summary
    where = words.where(summary)
    if summary.np is not None and summary.hardware:
        where = f"{where}, {summary.hardware}"
    names = [one.name for one in record.result.variants]
    if len(names) > 1:
        against = " against ".join(names)
        compared = against if len(against) <= _LONGEST_TITLE else f"{len(names)} variants compared"
        return f"{summary.benchmark}\u00a0\u00b7 {compared}\u00a0\u00b7 {where}"
    return f"{summary.benchmark} \u00b7 {where}"


def _measured(record: Record) -> str:
    """Return with which library the run measured, or which variants and how often, and the version."""
    compared = record.result.variants
    launcher = f"launcher {record.summary.launcher or 'none'}"
    said = bench_table.repeats(one.repeats for one in compared)
    version = f", clusterctl {record.summary.clusterctl_version}" if record.summary.clusterctl_version else ""
    if len(compared) > 1:
        names = ", ".join(one.name for one in compared)
        return f"{len(compared)} variants interleaved: {names}; {said}, {launcher}{version}"
    repeats = f", {said}" if record.result.repeats > 1 else ""
    return f"library {record.result.library or 'none'}, {launcher}{repeats}{version}"


def _blocks(result: BenchResult) -> tuple[Block, Block, Block]:
    """Return what was measured and where, the table of the figures, and what proves them, as a terminal shows it."""
    variants = result.variants
    launcher = f"launcher {result.launcher or '-'}"
    if not (result.library or result.launcher or result.rows or result.points):
        # The nodes did not permit a plan.
        head = [f"{result.benchmark}: no rank was started"]
    elif len(variants) > 1:
        head = [f"{result.benchmark}, {launcher}, {len(variants)} variants interleaved", _figures(variants)]
    else:
        # A program of the user decides itself which library it loads.
        library = "variables for" if bench_sentence.of_a_program(result) else "library"
        title = f"{result.benchmark}{_kind(result)}, {library} {result.library or '-'}, {launcher}"
        head = [title, _where(result), *([_figures(variants)] if result.repeats > 1 else [])]
    table = bench_table.table(result)
    after = tuple(filter(None, (bench_table.started(variants), bench_table.what_decides(variants))))
    found = Block("") if table is None else Block(table.title, tables=(table,), after=after)
    if len(variants) > 1:
        items = [
            replace(item, said=f"{one.name}: {item.said}")
            for one in variants
            for item in trust_lines.items(one.proof)
        ]
    else:
        average = result.avg_busbw_gbps
        items = [] if average is None else [Item(Tone.HEAD, f"Avg bus bandwidth: {average:g} GB/s")]
        items += trust_lines.items(result.proof, result.evidence)
        items += map(
            partial(Item, Tone.PLAIN), trust_lines.neighbours(result.proof, result.evidence.stragglers)
        )
    proof = Block("", items=tuple(items), on_page=False)
    return Block("", lines=tuple(head), on_page=False), found, proof


def _energy(result: BenchResult) -> Block:
    """Return the energy per GB or per step, or why it is not available; a terminal leaves out what no rank can read."""
    lines = [
        f"{f'{one.name}: ' if len(result.variants) > 1 else ''}{_energy_line(entry)}"
        if entry.joules
        else _energy_line(entry)
        for one in result.variants
        for entry in one.energy
    ]
    unreadable = all(entry.reason in (NO_GPU, NOT_READ) for one in result.variants for entry in one.energy)
    return Block("", lines=tuple(dict.fromkeys(lines)), on_terminal=not unreadable)


def _energy_line(entry: Energy) -> str:
    if entry.joules is None:
        return f"energy per {entry.per}: not available ({entry.reason})"
    found = entry.joules
    spread = f" ({found.least:.4g}-{found.greatest:.4g})" if found.bounds else ""
    return f"energy: {found.median:.4g} J per {entry.per}{spread}, all GPUs of {counted(entry.np, 'rank')}"


def _software(result: BenchResult) -> Block:
    """Return the versions of image and host; a terminal shows them for a program of the user only."""
    found = result.proof.versions
    if found is None:
        return Block("")
    return replace(versions.block(found), on_terminal=bench_sentence.of_a_program(result))


def _time_slices(result: BenchResult) -> Block:
    """Return that the ranks took turns on a GPU, and the two commands that start MPS; empty if they did not."""
    if words.of_bench(result)[1] != words.TURNS:
        return Block("")
    return Block(
        "",
        before="Start MPS on the node, with its variables in `env` of the inventory, and measure again:",
        lines=MPS_COMMANDS,
        tone=Tone.OPEN,
    )


def _where(result: BenchResult) -> str:
    hosts = Counter(rank.host for rank in result.proof.ranks or ())
    return f"ranks on: {nodeset.fold_shares(hosts)}" if hosts else "no rank reported its host"


def _kind(result: BenchResult) -> str:
    """Return the type of the elements and the operator, if they are not the usual ones."""
    settings = result.proof.settings or {}
    said = [settings.get(name) for name in ("datatype", "redop")]
    if not result.rows or (said[0] in (None, "float") and said[1] in (None, "sum", "none")):
        return ""
    return " of " + ", ".join(str(word) for word in said if word not in (None, "none"))


def _figures(variants: Sequence[VariantResult]) -> str:
    """Return what the figures of the table are."""
    counts = {variant.repeats for variant in variants}
    said = "one repeat" if counts == {1} else f"median (minimum-maximum) of {bench_table.repeats(counts)}"
    if len(variants) == 1:
        return said
    both = any(row.in_place for variant in variants for row in variant.rows)
    return f"{'out-of-place, ' if both else ''}{said}; ratio: speed relative to {variants[0].name}"


def _variant_tiles(compared: Sequence[VariantResult]) -> Iterator[Tile]:
    """Yield the main figure of each variant, with the variant's name, and the wrong elements of all."""
    for one in compared:
        if fast := _fastest(one.rows):
            yield Tile(one.name, f"{fast[0]:.2f}", "GB/s", f"highest bus bandwidth, at {size(fast[1])}")
        for point in one.points[-1:]:
            note = f"throughput of {counted(point.np, 'rank')}"
            note += f", {point.word.value}" if point.word else ""
            yield Tile(one.name, _headline(point.samples_per_s.median), point.unit, note)
    yield from _wrong([row for one in compared for row in one.rows], "of all variants")


def _tiles(result: BenchResult) -> Iterator[Tile]:
    """Yield the main figures of a run with one variant."""
    rows = result.rows
    if fast := _fastest(rows):
        yield Tile("Highest bus bandwidth", f"{fast[0]:.2f}", "GB/s", f"at {size(fast[1])}")
    if result.avg_busbw_gbps is not None:
        both = ", both columns" if any(row.in_place for row in rows) else ""
        yield Tile("Avg bus bandwidth", f"{result.avg_busbw_gbps:.2f}", "GB/s", f"{len(rows)} sizes{both}")
    expected = result.evidence.expected
    if expected is not None and expected.share is not None and expected.expected_busbw_gbps is not None:
        note = f"{expected.expected_busbw_gbps:.1f} GB/s expected"
        yield Tile("Share of expected", f"{expected.share * 100:.1f}", "%", note)
    for first in [row for row in rows if row.time_us.median][:1]:
        value, _, word = duration(first.time_us.median).partition(" ")
        yield Tile("Smallest message", value, word, f"per operation of {size(first.size_bytes)}")
    yield from _wrong(rows)
    for wall in result.walls[-1:]:
        note = f"of {counted(wall.np, 'rank')} on {counted(wall.nodes, 'node')}"
        yield Tile("Wall time", f"{wall.seconds.median:.1f}", "s", note)
    for last in result.points[-1:]:
        ranks = f"{counted(last.np, 'rank')}"
        off = (result.proof.spread or {}).get(str(last.np))
        spread = f"\u00b1{off:.1f} (1.96\u03c3)" if off is not None else "spread unknown"
        yield Tile("Throughput", _headline(last.samples_per_s.median), last.unit, f"of {ranks}")
        yield Tile("Per rank", f"{last.samples_per_s_per_rank:.1f}", last.unit, spread)
        if last.efficiency is not None and last.np > 1:
            share = percent(last.efficiency).rstrip("%")
            yield Tile("Linear scaling", share, "%", f"{ranks} against 1")


def _fastest(rows: Sequence[VariantRow]) -> tuple[float, int] | None:
    """Return the highest bus bandwidth, out of place if it was measured, and its size in bytes."""
    found = [(row.busbw_gbps.median, row.size_bytes) for row in rows if row.busbw_gbps is not None]
    return max(found, key=lambda one: one[0], default=None)


def _wrong(rows: Sequence[VariantRow], of: str = "") -> Iterator[Tile]:
    """Yield the tile with the number of wrong elements; none for a training."""
    if not rows:
        return
    checked = [row.wrong for row in rows if row.wrong is not None]
    if not checked:
        yield Tile("Wrong elements", "?", "", "results were not checked")
        return
    sizes = counted(len(rows), "size")
    all_were = len(checked) == len(rows)
    note = f"all {sizes} were checked" if all_were else f"{len(checked)} of {sizes} were checked"
    yield Tile("Wrong elements", str(sum(checked)), "", of or note)


def _headline(value: float) -> str:
    return f"{value:.0f}" if value >= 10_000 else f"{value:.1f}"


def _cases(record: Record) -> Iterator[Case]:
    """Yield a case for each failure, or for each variant of a run without failures."""
    summary, proof = record.summary, record.result.proof
    ranks = "no rank" if summary.np is None else f"{counted(summary.np, 'rank')}"
    what = f"{summary.benchmark}, {summary.library or 'no library'}, {ranks}"
    for failure in proof.failures or ():
        kind = failure.kind.value
        hint = f"\nhint: {failure.hint}" if failure.hint else ""
        yield Case(f"{what}: {kind}", CaseEnd.FAILURE, kind, f"{failure.message}{hint}")
    if proof.failures:
        return
    # The faults of its hardware, and the baseline that it missed, concern all variants.
    said = trust_lines.lines(VariantProof(health=record.result.health), Proof(baseline=proof.baseline))
    message = "\n".join([f"the run is {summary.status}", *said])
    hardware = summary.hardware or "unknown hardware"
    for name, best, result in _parts(record):
        case = f"{summary.benchmark}, {name or 'no library'}, {ranks}"
        if summary.status == "ok":
            told = [f"best: {best} on {hardware}", *_energy(result).lines, *_ratios(record.result, result)]
            yield Case(case, told="\n".join(told))
        else:
            told = [*_ratios(record.result, result)]
            yield Case(case, CaseEnd.FAILURE, summary.status, message, "\n".join(told))


def _ratios(whole: BenchResult, part: BenchResult) -> Iterator[str]:
    """Yield how a variant compares with the first one: in a sentence, and at each size or number of ranks."""
    if len(whole.variants) < 2 or part.variants[0].name == whole.variants[0].name:
        return
    own = part.variants[0]
    yield bench_sentence.against(own, whole.variants[0])
    figures: list[VariantRow | VariantPoint] = [*own.rows, *own.points]
    for one in figures:
        if one.ratio is not None:
            at = size(one.size_bytes) if isinstance(one, VariantRow) else counted(one.np, "rank")
            word = f", {one.word.value}" if one.word else ""
            yield f"{at}: {one.ratio:.3f} times the speed{word}"


def _parts(record: Record) -> Iterator[tuple[str | None, str, BenchResult]]:
    """Yield name, main figure and result of each variant; a run without several has the name of its library."""
    result = record.result
    if len(result.variants) < 2:
        yield record.summary.library, record.summary.best, result
        return
    for one in result.variants:
        yield one.name, shown_figure(*figure_of(one)), result.model_copy(update={"variants": (one,)})


def _labels(record: Record, key: Mapping[str, str]) -> dict[str, object]:
    summary = record.summary
    return {
        "benchmark": summary.benchmark,
        "library": record.result.library or "",
        "launcher": summary.launcher or "",
        "np": key.get("np", ""),
        "nodes": key.get("nodes", ""),
        "hardware": summary.hardware or "",
        "configuration": hashlib.sha256(text.encode()).hexdigest()[:12] if (text := _key(key)) else "",
        "variant": "",
    }


def _metrics(record: Record, labels: Mapping[str, object]) -> Iterator[Metric]:
    """Yield all metrics, also those without samples; the figures of a failed run are not reliable."""
    summary, health = record.summary, record.result.health
    moment = datetime.fromisoformat(summary.started_at.replace("Z", "+00:00")).timestamp()
    events = Counter((event.node, event.effect.value) for event in (health.events if health else ()))
    found: dict[str, list[tuple[Mapping[str, object], float]]] = {name: [] for name in _METRICS}
    found["clusterctl_bench_timestamp_seconds"].append((labels, moment))
    found["clusterctl_bench_ok"].append((labels, int(summary.status == "ok")))
    found["clusterctl_bench_hardware_events"] += [
        ({**labels, "node": node, "effect": effect}, count) for (node, effect), count in events.items()
    ]
    if summary.status != "failed":
        for variant in record.result.variants:
            for name, here, value in _figures_of(record, variant):
                if value is not None:
                    found[f"clusterctl_bench_{name}"].append((here, value))
    for name, samples in found.items():
        yield Metric(name, _METRICS[name], tuple(samples))


def _figures_of(
    record: Record, one: VariantResult
) -> Iterator[tuple[str, Mapping[str, object], float | None]]:
    """Yield the figures of a variant in base units, with their labels; the only variant of a run has no name."""
    own = {"library": one.library or "", "variant": _name(record.result, one) or ""}
    labels = {**_labels(record, one.key), **own}
    for row in one.rows:
        here = {**labels, "size_bytes": row.size_bytes}
        busbw = row.busbw_gbps
        yield "busbw_bytes_per_second", here, None if busbw is None else busbw.median * 1e9
        yield "time_seconds", here, row.time_us.median / 1e6
        yield "calls_seconds", here, None if row.calls_us is None else row.calls_us.median / 1e6
        yield from _monitored_ratio(record.result, one, row, here)
    if one.rows and (spent := _joules(one, "GB")):
        yield "energy_per_byte_joules", labels, spent / 1e9
    for point in one.points:
        np = str(point.np)
        here = {**_labels(record, one.keys.get(np) or {"np": np, "nodes": str(point.nodes)}), **own}
        yield "energy_per_step_joules", here, _joules(one, "step", point.np)
        yield "samples_per_second", here, point.samples_per_s.median
        yield "efficiency_ratio", here, point.efficiency
        yield "efficiency_between_nodes_ratio", here, point.efficiency_between_nodes
        yield "loss", here, point.loss
        yield from _monitored_ratio(record.result, one, point, here)
    for wall in one.walls or ():
        of_wall = one.keys.get(str(wall.np)) or {"np": str(wall.np), "nodes": str(wall.nodes)}
        yield "wall_seconds", {**_labels(record, of_wall), **own}, wall.seconds.median


def _monitored_ratio(
    result: BenchResult, one: VariantResult, figure: VariantRow | VariantPoint, labels: Mapping[str, object]
) -> Iterator[tuple[str, Mapping[str, object], float | None]]:
    """Yield the ratio of a figure to that of the first variant, and its word; nothing for the first variant."""
    if one is result.variants[0]:
        return
    here = {**labels, "against": result.variants[0].name}
    yield "speed_ratio", here, figure.ratio
    if figure.word:
        yield "comparison", {**here, "word": figure.word.value}, 1


def _joules(one: VariantResult, per: Literal["GB", "step"], np: int | None = None) -> float | None:
    """Return the joules per GB or per step, the median of the repeats; ``np`` None: of any number of ranks."""
    found = (entry.joules for entry in one.energy if entry.per == per and np in (None, entry.np))
    return next((joules.median for joules in found if joules), None)


def _name(result: BenchResult, one: VariantResult) -> str | None:
    return one.name if len(result.variants) > 1 else None


def _key(key: Mapping[str, str] | None) -> str | None:
    """Return a key as JSON, with the fields in its own order; None without one."""
    return json.dumps(dict(key), separators=(",", ":"), allow_nan=False) if key else None


def _lines(record: Record) -> Iterator[dict[str, object]]:
    """Yield the figures by column; a run without figures has one line without them."""
    summary, result = record.summary, record.result
    first: dict[str, object] = {name: getattr(summary, name) for name in _OF_RUN}
    if not any(one.rows or one.points or one.walls for one in result.variants):
        yield {**first, "library": result.library, "key": _key(summary.key)}
    for number, one in enumerate(result.variants):
        key = _key(one.key)
        own = {**first, "library": one.library, "key": key, "variant": _name(result, one)}
        for row in one.rows:
            half = {f"in_place_{name}": value for name, value in _half(row.in_place).items()}
            average = {"avg_busbw_gbps": result.avg_busbw_gbps} if number == 0 else {}
            columns: dict[str, object] = {"size_bytes": row.size_bytes, "wrong": row.wrong}
            columns |= {"calls_us": row.calls_us.median} if row.calls_us else {}
            columns |= {"joules_per_gb": _joules(one, "GB")}
            yield {**own, **columns, **_half(row), **half, **average, **_ratio(result, row)}
        walls = {wall.np: wall for wall in one.walls or ()}
        for point in one.points:
            spent = {"joules_per_step": _joules(one, "step", point.np)}
            wall = walls.pop(point.np, None)
            spent |= {"wall_s": wall.seconds.median} if wall else {}
            yield {**own, **_point(point), **spent, **_ratio(result, point)}
        for wall in walls.values():
            yield {**own, "np": wall.np, "nodes": wall.nodes, "wall_s": wall.seconds.median}


def _half(half: VariantRow | VariantHalf | None) -> dict[str, float]:
    """Return the medians of one half of a row."""
    if half is None:
        return {}
    found = {"time_us": half.time_us, "algbw_gbps": half.algbw_gbps, "busbw_gbps": half.busbw_gbps}
    return {name: value.median for name, value in found.items() if value is not None}


def _point(point: VariantPoint) -> dict[str, object]:
    return {
        "np": point.np,
        "nodes": point.nodes,
        "samples_per_s": point.samples_per_s.median,
        "samples_per_s_per_rank": point.samples_per_s_per_rank,
        "efficiency": point.efficiency,
        "efficiency_between_nodes": point.efficiency_between_nodes,
        "loss_first": point.loss_first,
        "loss": point.loss,
    }


def _ratio(result: BenchResult, one: VariantRow | VariantPoint) -> dict[str, object]:
    """Return the speed relative to the first variant and its word; nothing if the run has no other one."""
    if len(result.variants) < 2:
        return {}
    return {"ratio": one.ratio, "word": one.word.value if one.word else None}
