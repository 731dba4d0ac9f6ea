"""The page of one run of ``locate``: what is slow and why, and the rates of all pairs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clusterctl.documents.locate import Locate, LocateStatus, SuspectStatus
from clusterctl.inventory import nodeset
from clusterctl.report.html import page
from clusterctl.report.html.pair_matrix import matrices
from clusterctl.report.html.run_page import Tile
from clusterctl.report.text import locate, locate_cause
from clusterctl.results.locate import named

_WORDS = {
    LocateStatus.NONE: "ok",
    LocateStatus.NAMED: "slow",
    LocateStatus.INCONCLUSIVE: "inconclusive",
    LocateStatus.FAILED: "failed",
}


def render(found: Locate, *, began: str, history: Sequence[str]) -> str:
    """Return the page as HTML text; ``began`` is the start as text, ``history`` the lines on earlier runs."""
    entries = locate.entries(found) if found.status is not LocateStatus.FAILED else []
    rails = matrices(found)
    return page.render(
        "locate.html.j2",
        title=f"Locate \u00b7 {locate.size(found)}",
        run=found.run,
        began=began,
        verdict=_WORDS[found.status],
        tiles=_tiles(found),
        failures=found.failures,
        slow=[one for one in entries if one.status is SuspectStatus.NAMED],
        others=[one for one in entries if one.status is not SuspectStatus.NAMED],
        history=history,
        health=locate_cause.health_of_others(found, ()),
        false_alarms=locate.false_alarms(found),
        matrices=rails,
        open_matrices=max(1, sum(one.marked for one in rails)),
        differences=found.differences,
        apart=found.apart,
        works=nodeset.fold(_working(found)),
    )


def _tiles(found: Locate) -> list[Tile]:
    names = named(found)
    how = f"{found.library or 'no library'}, {found.launcher or 'no launcher'}"
    tiles = [
        Tile("Slow", str(len(names)), "", ", ".join(names) or "no node, rail or link was named"),
        Tile("Pair rounds", str(found.rounds), "", f"and {found.windows} windows of each rank alone"),
        Tile("Time", f"{found.duration_s:.0f}", "s", how),
    ]  # fmt: skip
    if found.rates:
        value, _, unit = locate.speed(statistics.median(one.gbps for one in found.rates)).partition(" ")
        tiles.insert(1, Tile("Median rate", value, unit, "best rate of a rank, each direction"))
    return tiles


def _working(found: Locate) -> list[str]:
    """Return the nodes that worked in a pair of their own."""
    pairs = found.apart.pairs if found.apart is not None else ()
    return sorted({node for one in pairs if one.why is None for node in one.nodes})
