"""The page of one run: its results, their reliability, and its configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from clusterctl.benchmarks.key import ABSENT
from clusterctl.documents.bench import BenchResult
from clusterctl.foreign import json_value
from clusterctl.report.html import bounds, page, topology, trust, variants
from clusterctl.report.html.heat_map import of_proof
from clusterctl.report.view import View
from clusterctl.results.record import Record

SETTING_NAMES = {"benchmark": "model", "batch_per_rank": "batch_size", "memory_format": "channels_last"}
"""Fields of the key that the settings contain under another name."""
# Entries of a proof without a section of their own on the page; they are shown as they are.
_AS_THEY_ARE = {"nccl", "paths", "usage", "sharing", "refused"}


def render(record: Record, view: View) -> str:
    """Return the page of one run, and of its view, as HTML text."""
    result, summary = record.result, record.summary
    proof = result.proof
    unit = unit_of(result)
    np = ranks_of(record)
    key = key_of(record)
    several = len(result.variants) > 1
    return page.render(
        "run.html.j2",
        summary=summary,
        title=view.title,
        view=view,
        tiles=view.tiles,
        ways=trust.ways(proof),
        slow=trust.slow(proof),
        health=trust.health(proof),
        unread=proof.health.unread if proof.health else (),
        below=trust.below(proof),
        baseline=trust.baseline_sentence(proof),
        stragglers=trust.stragglers(proof, np),
        expected=bounds.sentence(proof.expected),
        expected_is_bad=proof.expected is not None and proof.expected.verdict in bounds.BAD,
        charts=variants.charts(result, bounds.lines(record)),
        tables=[table for block in view.blocks for table in block.tables],
        proven=variants.proven(result.variants) if several else (),
        several=several,
        heat=of_proof(proof, np, unit),
        heat_heading="Per-rank deviation" if result.points else "Deviation by node",
        topology=topology.of_proof(proof),
        ranks=proof.ranks or (),
        key=key,
        settings=_beside_the_key(proof.settings or {}, key),
        transports=proof.transports or (),
        commands=record.commands,
        rest={
            name: json.dumps(value, indent=1)
            for name, value in proof.model_dump(include=_AS_THEY_ARE | {*proof.more}).items()
            if value
        },
    )


def ranks_of(record: Record) -> int | None:
    """Return the number of ranks of a run's last launch."""
    points = record.result.points
    return points[-1].np if points else record.summary.np


def unit_of(result: BenchResult) -> str:
    """Return the unit of a result's points."""
    return result.points[0].unit if result.points else "images/s"


def key_of(record: Record) -> dict[str, str]:
    """Return the fields of a run's key that have a value."""
    key: dict[str, str] = json_value(record.summary.key) if record.summary.key else {}
    return {name: value for name, value in key.items() if value != ABSENT}


def _beside_the_key(settings: Mapping[str, JsonValue], key: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the key does not contain."""
    said = {*key, *(setting for field, setting in SETTING_NAMES.items() if field in key)}
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in settings.items()
        if name not in said
    }
