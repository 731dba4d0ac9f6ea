"""The keys of one measured request: one per point for a scaling curve, one for a sweep."""

from __future__ import annotations

from collections.abc import Iterable

from clusterctl.benchmarks.key import configuration_key, library_version, mapping
from clusterctl.launch.measured import Measured


def keys_of(measured: Measured) -> dict[str, dict[str, str]]:
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
        for np, nodes, lines in _figures(measured)
    }


def _figures(measured: Measured) -> Iterable[tuple[int, int, tuple[str, ...]]]:
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
