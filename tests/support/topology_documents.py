"""``proof.topology`` of a run, from recorded dumps of NCCL of which single nodes differ."""

from __future__ import annotations

from pathlib import Path

from clusterctl.launch import node_topology
from clusterctl.launch.nccl_dumps import NcclDump

CASES = Path(__file__).parents[1] / "unit" / "trust" / "topology_cases"
HGX = (CASES / "h200-hgx-topo.xml").read_text().strip()
GRAPHS = (CASES / "h200-hgx-graph.xml").read_text().strip()
SLOW_CARD = HGX.replace(
    'name="mlx5_5" dev="5" latency="0.000000" speed="400000"',
    'name="mlx5_5" dev="5" latency="0.000000" speed="200000"',
)


def four_nodes():
    """Four nodes with eight H200 each; a card of the third one has half its rate."""
    dumps = {f"gpu0{n}": NcclDump(8 * n - 8, SLOW_CARD if n == 3 else HGX, GRAPHS) for n in range(1, 5)}
    return node_topology.part(list(dumps), dumps, {})


def one_node(case):
    """One node with the topology of another recorded dump."""
    return node_topology.part(
        ["gpu01"], {"gpu01": NcclDump(0, (CASES / f"{case}.xml").read_text().strip(), "")}, {}
    )
