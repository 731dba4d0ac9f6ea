"""The differences between the topologies of a run's nodes, as lines."""

from __future__ import annotations

from clusterctl.documents.proof import Topology
from clusterctl.inventory import nodeset


def difference_lines(topology: Topology) -> list[str]:
    """Return a line for each group of ``proof.topology`` that differs from the largest group."""
    lines = []
    for one in topology.differences:
        like = nodeset.fold(one.like)
        parts = [f"{part.name}: {part.value} (others: {part.other})" for part in one.parts]
        more = f"; {one.more} more" if one.more else ""
        verb = "differs" if len(one.nodes) == 1 else "differ"
        lines.append(f"{nodeset.fold(one.nodes)} {verb} from {like}: {'; '.join(parts)}{more}")
    return lines


def lines(topology: Topology) -> list[str]:
    """Return the lines below the table of a result; none if all nodes are equal."""
    return [f"topology: {line}" for line in difference_lines(topology)]
