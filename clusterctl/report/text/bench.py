"""Results as plain text: what was measured, the table of its figures, and what proves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clusterctl.documents.bench import BenchResult, VariantResult
from clusterctl.inventory import nodeset
from clusterctl.report import bench_table
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.table import rendered


def render(result: BenchResult) -> str:
    """Return a result as text: what was measured and where, its table, and what proves it; ``-``: no figure."""
    variants = result.variants
    if not (result.library or result.launcher or result.rows or result.points):
        # The nodes did not permit a plan.
        lines = [f"{result.benchmark}: no rank was started"]
    elif len(variants) > 1:
        launcher = f"launcher {result.launcher or '-'}"
        lines = [f"{result.benchmark}, {launcher}, {len(variants)} variants interleaved", _figures(variants)]
    else:
        title = f"{result.benchmark}{_kind(result)}, library {result.library or '-'}"
        lines = [f"{title}, launcher {result.launcher or '-'}", _where(result)]
        lines += [_figures(variants)] if result.repeats > 1 else []
    found = bench_table.table(result)
    lines += [rendered(found)] if found is not None else []
    if len(variants) > 1:
        lines += [f"{one.name}: {line}" for one in variants for line in trust_lines.lines(one.proof)]
        return "\n".join(lines)
    if result.avg_busbw_gbps is not None:
        lines.append(f"Avg bus bandwidth: {result.avg_busbw_gbps:g} GB/s")
    return "\n".join([*lines, *trust_lines.lines(result.proof)])


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
