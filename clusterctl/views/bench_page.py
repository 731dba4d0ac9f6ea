"""What only the page of ``bench`` has room for: the evidence on its figures, charts, and the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from clusterctl.benchmarks.key import ABSENT
from clusterctl.documents.kinds import Effect
from clusterctl.documents.proof import FigureBelow, GpuDirect, HardwareHealth, Proof
from clusterctl.report.line import Tone
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.baseline import not_judged_lines
from clusterctl.report.text.table import size
from clusterctl.report.view import Block, Cell, Head, Table
from clusterctl.results.record import Record
from clusterctl.views import bounds, charts, heat_map, topology

_SETTING_NAMES = {"benchmark": "model", "batch_per_rank": "batch_size", "memory_format": "channels_last"}
"""Fields of the key that the settings contain under another name."""
# Entries of a proof without a block of their own; they are shown as they are.
_AS_THEY_ARE = {"nccl", "paths", "usage", "sharing", "refused"}
_GRAVEST = (Effect.GRAVE, Effect.DOUBTFUL, Effect.NOTE)


def above(record: Record) -> Iterator[Block]:
    """Yield what decides whether the figures can be believed, and their charts."""
    result, status = record.result, record.summary.status
    proof, expected = result.proof, result.evidence.expected
    if proof.baseline is not None:
        heads = ("figure", "measured", "baseline", "drop", "allowed drop")
        table = _table("Figures below the baseline", heads, map(_below, proof.baseline.below))
        tone = Tone.FAINT if status == "ok" else Tone.OPEN
        yield Block("", before=baseline_sentence(proof), tables=table, tone=tone, on_terminal=False)
    if proof.slow:
        yield Block("", lines=tuple(trust_lines.slow(proof.slow)), tone=Tone.OPEN, on_terminal=False)
    yield _health(result.health, Tone.OPEN if status == "doubtful" else Tone.FAINT)
    if expected is not None:
        tone = Tone.OPEN if expected.verdict in bounds.BAD else Tone.FAINT
        yield Block("", before=bounds.sentence(expected), tone=tone, on_terminal=False)
    drawn = tuple(charts.of_run(record.result, bounds.lines(record)))
    yield Block("", charts=drawn, on_terminal=False)


def below(record: Record) -> Iterator[Block]:
    """Yield what each variant proves, the ranks, the paths between nodes, the topology, and the configuration."""
    result = record.result
    proof = result.proof
    if len(result.variants) > 1:
        proven = (
            (one.name, trust_lines.lines(one.proof) + trust_lines.algorithms(one.proof))
            for one in result.variants
        )
        lines = tuple(f"{name}: {line}" for name, lines in proven for line in lines)
        yield Block("What each variant proves", lines=lines, on_terminal=False)
    slow = [
        f"rank {one.rank} on {one.host or 'unknown'} ({one.loss * 100:.1f} % below the median)"
        for one in (result.evidence.stragglers or {}).get(str(record.ranks), ())
    ]
    if slow:
        said = f"Slower than random variation: {', '.join(slow)}."
        yield Block("", before=said, tone=Tone.OPEN, on_terminal=False)
    title = "Per-rank deviation" if result.points else "Deviation by node"
    heat = heat_map.block(proof, record.ranks, result.unit, title)
    if heat is not None:
        yield heat
    ways = _table(
        "Path between nodes",
        ("node", "GPUDirect", "sends", "receives", "why"),
        _ways(result.evidence.gpudirect),
    )
    said = "The channels of every node to the others, in both directions, from NCCL's log of this run."
    yield Block("Path between nodes", before=said, tables=ways, on_terminal=False)
    drawn = topology.of_proof(proof)
    if drawn is not None:
        yield Block("Topology", topology=drawn, on_terminal=False)
    yield _configuration(record)


def _table(title: str, heads: Sequence[str], rows: Iterable[tuple[Cell, ...]]) -> tuple[Table, ...]:
    """Return a table of words; nothing without rows."""
    found = tuple(rows)
    return (Table(tuple(map(Head, heads)), found, style="plain", title=title),) if found else ()


def _below(one: FigureBelow) -> tuple[Cell, ...]:
    measure = "throughput" if one.size_bytes is None else f"busbw at {size(one.size_bytes)}"
    texts = (
        f"{measure}, {one.np} ranks", f"{one.value:g} {one.unit}", f"{one.baseline:g} {one.unit}",
        f"{one.loss * 100:.1f} %", f"{one.allowed * 100:.1f} %",
    )  # fmt: skip
    return tuple(map(Cell, texts))


def baseline_sentence(proof: Proof) -> str:
    """Return the outcome of the comparison with a baseline as a sentence; empty without a baseline."""
    found = proof.baseline
    if found is None:
        return ""
    judged, low, of, name = found.judged, len(found.below), found.figures, found.name
    figures = f"{judged}{f' of {of}' * (of != judged)} figure{'s' * (of != 1)} judged"
    said = {
        "ok": f"The run meets the baseline {name}: {figures}, 0 below it",
        "below-baseline": f"The run is below the baseline {name}: {figures}, {low} below it",
        "not-judged": f"The baseline {name} cannot judge this run: {figures}",
    }.get(found.verdict, f"The baseline {name} has no entry for this run")
    more = [found.reason or "", *not_judged_lines(found), found.hint or ""]
    # Names in the sentence keep their case, so only the first letter is capitalised.
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in (said, *more) if text)


def _health(health: HardwareHealth | None, tone: Tone) -> Block:
    """Return what the hardware reported, the gravest first."""
    events = health.events if health else ()
    heads = ("node", "place", "what happened", "effect", "meaning", "source")
    rows = (
        tuple(map(Cell, (one.node, one.place, one.what, one.effect.value, one.meaning, one.source)))
        for one in sorted(events, key=lambda event: _GRAVEST.index(event.effect))
    )
    unread = health.unread if health else ()
    title = "What the hardware reported during the run"
    return Block(
        title,
        lines=tuple(f"Not compared on {one.node}: {one.reason}." for one in unread),
        tables=_table(title, heads, rows),
        tone=tone,
        on_terminal=False,
    )


def _ways(found: GpuDirect | None) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each node, nodes that lost the fast path first."""
    nodes = found.nodes if found else ()
    for node in sorted(nodes, key=lambda one: not one.fallen_back):
        why = ". ".join(text for text in (node.cause, node.hint) if text)
        status = Cell(node.status, Tone.BAD if node.fallen_back else Tone.PLAIN)
        yield Cell(node.name), status, Cell(_counted(node.send)), Cell(_counted(node.receive)), Cell(why)


def _counted(channels: Mapping[str, int]) -> str:
    return ", ".join(f"{way} \u00d7{count}" for way, count in channels.items()) or "-"


def _configuration(record: Record) -> Block:
    proof = record.result.proof
    found: dict[str, str] = record.summary.key or {}
    key = {name: value for name, value in found.items() if value != ABSENT}
    rest = record.result.evidence.model_dump(include=_AS_THEY_ARE) | proof.model_dump(include={*proof.more})
    ranks = (
        tuple(map(Cell, (str(one.rank), one.host, str(one.pid), one.device))) for one in proof.ranks or ()
    )
    return Block(
        "Configuration",
        tables=(
            *_pairs("Only results with the same values are comparable", key),
            *_pairs("Settings of the ranks", _beside_the_key(proof.settings or {}, key)),
            *_table("Library versions", ("version",), ((Cell(line),) for line in record.summary.versions)),
            *_table(
                "Transports between ranks", ("transport",), ((Cell(line),) for line in proof.transports or ())
            ),
        ),
        closed=_table("Placement of the ranks", ("rank", "node", "process", "device"), ranks),
        summary=f"Placement of the {len(proof.ranks or ())} ranks",
        texts=tuple(
            (name, text)
            for name, text in (
                ("Command lines", "\n".join(record.commands)),
                *((name, json.dumps(value, indent=1)) for name, value in rest.items() if value),
            )
            if text
        ),
        on_terminal=False,
    )


def _pairs(title: str, values: Mapping[str, str]) -> tuple[Table, ...]:
    rows = ((Cell(name), Cell(value)) for name, value in values.items())
    return tuple(replace(one, style="pairs") for one in _table(title, ("field", "value"), rows))


def _beside_the_key(settings: Mapping[str, JsonValue], key: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the key does not contain."""
    said = {*key, *(setting for field, setting in _SETTING_NAMES.items() if field in key)}
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in settings.items()
        if name not in said
    }
