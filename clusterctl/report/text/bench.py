"""Results as tables of plain text."""

from __future__ import annotations

from collections import Counter

from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import BenchResult
from clusterctl.inventory import nodeset
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.table import columns, halves_above, loss, size


def _figure(value: float | None, digits: int = 2) -> str:
    return "N/A" if value is None else f"{value:.{digits}f}"


def _where(result: BenchResult) -> str:
    hosts = Counter(rank.host for rank in result.proof.ranks or ())
    return f"ranks on: {nodeset.fold_shares(hosts)}" if hosts else "no rank reported its host"


def collective(result: BenchResult) -> str:
    """Return the sweep of a collective as a table, with in-place columns if the program measures both."""
    both = any(row.in_place for row in result.rows)
    rows = []
    for row in result.rows:
        halves = (row, row.in_place) if both else (row,)
        cells = [size(row.size_bytes)]
        for half in halves:
            figures = (half.time_us, half.algbw_gbps, half.busbw_gbps) if half else (None,) * 3
            cells += map(_figure, figures)
        rows.append([*cells, "-" if row.wrong is None else str(row.wrong)])
    if not both:
        return columns(["size", "time us", "algbw GB/s", "busbw GB/s", "wrong"], rows)
    table = columns(["size", *(2 * ["time us", "algbw", "busbw"]), "wrong"], rows)
    return halves_above(table, "out-of-place, GB/s", "in-place, GB/s")


def training(result: BenchResult) -> str:
    """Return the scaling curve of a training run with its losses, and the efficiency between nodes if measured."""
    spread = result.proof.spread or {}
    counted = "images" if result.points[0].images_per_s is not None else "sequences"
    with_loss = any(point.loss is not None for point in result.points)
    rows = [
        [
            str(point.np),
            str(point.nodes),
            f"{point.samples_per_s:.1f}",
            f"{point.samples_per_s / point.np:.1f} +-{spread.get(str(point.np), 0.0):.1f}",
            percent(point.efficiency),
            *((loss(point.loss_first), loss(point.loss)) if with_loss else ()),
        ]
        for point in result.points
    ]
    heads = ["ranks", "nodes", f"{counted}/s", f"{counted}/s per rank", "efficiency"]
    text = columns([*heads, *(("first loss", "last loss") if with_loss else ())], rows)
    for figure in result.proof.between_nodes or ():
        text += f"\nbetween nodes, {figure.nodes} against 1: {percent(figure.efficiency)}"
    return text


def _kind(result: BenchResult) -> str:
    """Return the type of the elements and the operator, if they are not the usual ones."""
    settings = result.proof.settings or {}
    said = [settings.get(name) for name in ("datatype", "redop")]
    if not result.rows or (said[0] in (None, "float") and said[1] in (None, "sum", "none")):
        return ""
    return " of " + ", ".join(str(word) for word in said if word not in (None, "none"))


def render(result: BenchResult) -> str:
    """Return a result as text: benchmark, placement of its ranks, and its table if it has one."""
    title = f"{result.benchmark}{_kind(result)}, library {result.library or '-'}, launcher {result.launcher or '-'}"
    if not (result.library or result.launcher or result.rows or result.points):
        lines = [f"{result.benchmark}: no rank was started"]  # the nodes did not permit a plan
    else:
        lines = [title, _where(result)]
    if result.rows:
        lines.append(collective(result))
    if result.avg_busbw_gbps is not None:
        lines.append(f"Avg bus bandwidth: {result.avg_busbw_gbps:g} GB/s")
    if result.points:
        lines.append(training(result))
    lines += trust_lines.lines(result.proof)
    return "\n".join(lines)
