"""The bandwidth that the hardware allows for a collective, and what share of it was measured.

Two figures, both bus bandwidth in GB/s as nccl-tests defines it (doc/PERFORMANCE.md there). ``expected`` is what a
healthy ring reaches: NVLink's share of its data rate as measured on healthy nodes of the generation, and the NICs'
line rate. ``limit`` is what no algorithm can pass, because the bytes that must cross a link cross it: a figure above
it says that something else was measured. Nothing is guessed: where an input is missing, the verdict is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clusterctl.benchmarks.links import NodeLinks, RdmaLink, is_efa

Verdict = Literal["fine", "warn", "slow", "impossible", "unknown"]
FINE_SHARE = 0.85
WARN_SHARE = 0.7
# What a message loses to latency is another question; below this the share says little. Of collectives with a part for
# every rank the parts are whole 16 bytes, so that 1 GiB of 24 ranks is a little less.
JUDGED_BYTES = (1 << 30) * 0.999
# Links carry a little more than the nominal figure now and then, and figures are rounded.
_TOLERANCE = 1.02
# The share of the data rate that a ring reached on healthy nodes: A100 235/300, H200 367/450, B200 682/900 GB/s.
# Source: stas00/ml-engineering, network/README.md, all_reduce_perf with NCCL_NVLS_ENABLE=0.
RING_SHARE = {3: 0.785, 4: 0.8155, 5: 0.758}
# mlx5 calls devices so that are two ports in one (LAG); their rate reads as that of one port (NVIDIA/nccl issue 1015).
_BOND = "_bond_"
# EFA's driver calls every rate 100 Gb/s before it asks the device (2.13, Linux 6.13). Instances whose GPUs have
# NVLink 4 or newer have 3200 Gb/s at least: 32 of 100 (P5), 16 of 200 (P5en), 8 of 400 (P6-B200).
_EFA_SAID_GBITPS, _EFA_GBITPS = 100.0, 3200.0
_RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a figure was measured on. ``links`` are of the node with the least; ``in_network`` None: not known."""

    collective: str
    ranks: int
    nodes: int
    links: NodeLinks | None
    in_network: bool | None = None
    """Whether switches reduce (SHARP)."""
    nvlink_between_nodes: bool | None = None
    """Whether NVLink joins the nodes too (MNNVL: GB200 NVL72 and its like)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``expected_gbps`` None: nothing is known, and ``why`` says what is missing; else how it was computed."""

    expected_gbps: float | None
    limit_gbps: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """A bound, the figure held against it, and the verdict."""

    bound: Bound
    verdict: Verdict
    size_bytes: int | None
    busbw_gbps: float | None
    share: float | None
    reason: str


def _unknown(why: str) -> Bound:
    return Bound(None, None, why)


def _fastest(ports: Sequence[RdmaLink]) -> list[RdmaLink]:
    """Return the ports with the highest rate: slower ones beside them serve storage and management."""
    top = max(port.rate_gbitps for port in ports)
    return [port for port in ports if port.rate_gbitps == top]


def line_rate_gbps(ports: Sequence[RdmaLink]) -> float:
    """Return the GB/s of the fastest ports."""
    return sum(port.rate_gbitps for port in _fastest(ports)) / 8


def bound(inputs: Inputs) -> Bound:
    """Return the bound of a collective, or why there is none."""
    links, n = inputs.links, inputs.ranks
    if links is None:
        return _unknown("the nodes' links are not known")
    if n < 2:
        return _unknown("one rank sends nothing")
    if inputs.collective not in (*_RINGS, "alltoall"):
        return _unknown(f"{inputs.collective} has no bound here")
    if n % inputs.nodes:
        return _unknown("the nodes have unequal numbers of ranks")
    local = n // inputs.nodes
    if links.nvlink is None and local > 1:
        return _unknown(links.why or "the GPUs have no NVLink")
    inside = _inside(inputs) if local > 1 else None
    if inputs.nodes == 1:
        return inside or _unknown("one rank sends nothing")
    return _between(inputs, links, local, inside)


def _inside(inputs: Inputs) -> Bound:
    nvlink = inputs.links.nvlink if inputs.links else None
    if nvlink is None or nvlink.generation not in RING_SHARE:
        return _unknown("no healthy ring of this NVLink generation is on record")
    share = RING_SHARE[nvlink.generation]
    rate = f"{nvlink.links} NVLinks x {nvlink.gbps_per_link:g} GB/s"
    # With reduction in the NVSwitch (NVLS) every GPU sends its data once, so that busbw, which counts 2(n-1)/n
    # times the data, may pass the links' rate.
    n = inputs.ranks // inputs.nodes
    factor = (
        2 * (n - 1) / n if inputs.collective == "all_reduce" and nvlink.generation >= 4 and n > 2 else 1.0
    )
    return Bound(nvlink.gbps * share, nvlink.gbps * factor, f"ring: {rate} x {share:g}")


def _between(inputs: Inputs, links: NodeLinks, local: int, inside: Bound | None) -> Bound:
    if not links.rdma:
        return _unknown("no active RDMA port: what the nodes' other network carries is not known")
    if inputs.nvlink_between_nodes:
        return _unknown("NVLink joins the nodes as well (MNNVL): the NICs bound nothing")
    if inputs.nvlink_between_nodes is None and links.nvlink is not None and links.nvlink.generation >= 5:
        return _unknown("whether NVLink joins the nodes (MNNVL) is not known")
    if inside is not None and inside.expected_gbps is None:
        return inside
    if local != links.gpus:
        return _unknown(
            f"{local} of {links.gpus} GPUs per node take part, and how many of the NICs serve them is not known"
        )
    bonds = [port.device for port in _fastest(links.rdma) if _BOND in port.device]
    if bonds:
        return _unknown(f"the driver tells of a bond ({', '.join(bonds)}) the rate of one of its ports only")
    if _unknown_to_the_driver(links):
        return _unknown("the rate of its EFAs is not known: EFA's driver calls each 100 Gb/s before 2.13")
    n, nodes = inputs.ranks, inputs.nodes
    wire = line_rate_gbps(links.rdma)
    every = sum(port.rate_gbitps for port in links.rdma) / 8
    leaves = ((n - 1) / n) * (nodes / (nodes - 1))
    if inputs.collective == "alltoall":
        # Of each rank's data the share of other nodes' ranks leaves through the node's NICs.
        expected, most = wire * leaves / local, every * leaves / local
        formula = f"alltoall: NICs {wire:g} GB/s x (n-1)/n x N/(N-1) / {local} ranks"
    else:
        expected = wire
        if inputs.collective == "all_reduce":
            most = every * (2 * (n - 1) / n if inputs.in_network is not False else leaves)
        elif inputs.collective in ("all_gather", "reduce_scatter"):
            most = every * leaves
        else:
            most = every
        formula = f"ring: NICs {wire:g} GB/s"
    if inside is None or inside.expected_gbps is None or inside.limit_gbps is None:
        return Bound(expected, most, formula)
    if inside.expected_gbps < expected:
        return Bound(inside.expected_gbps, min(most, inside.limit_gbps), inside.why)
    return Bound(expected, min(most, inside.limit_gbps), formula)


def _unknown_to_the_driver(links: NodeLinks) -> bool:
    said = [port.rate_gbitps for port in links.rdma if is_efa(port.device)]
    modern = links.nvlink is not None and links.nvlink.generation >= 4
    return modern and bool(said) and set(said) == {_EFA_SAID_GBITPS} and sum(said) < _EFA_GBITPS


def judge(inputs: Inputs, rows: Sequence[tuple[int, float]]) -> Expectation:
    """Hold the rows (bytes, busbw in GB/s) of one sweep against the bound.

    Above the limit at any size is impossible; the share is of the best row from 1 GiB on.
    """
    found = bound(inputs)
    if found.expected_gbps is None or found.limit_gbps is None:
        return Expectation(found, "unknown", None, None, None, found.why)
    if not rows:
        return Expectation(found, "unknown", None, None, None, "nothing was measured")
    size, busbw = max(rows, key=lambda row: row[1])
    if busbw > found.limit_gbps * _TOLERANCE:
        share = busbw / found.expected_gbps
        reason = (
            f"{busbw:.1f} GB/s is more than the links can carry ({found.limit_gbps:.0f} GB/s): "
            "other hardware, other ranks, or data that never moved"
        )
        return Expectation(found, "impossible", size, busbw, share, reason)
    judged = [row for row in rows if row[0] >= JUDGED_BYTES]
    if not judged:
        reason = "bandwidth is judged from 1 GiB on: measure larger messages (-e 1G)"
        return Expectation(found, "unknown", size, busbw, busbw / found.expected_gbps, reason)
    size, busbw = max(judged, key=lambda row: row[1])
    share = busbw / found.expected_gbps
    verdict: Verdict = "fine" if share >= FINE_SHARE else "warn" if share >= WARN_SHARE else "slow"
    return Expectation(found, verdict, size, busbw, share, found.why)


def document(expectation: Expectation) -> dict[str, object]:
    """Return it as ``proof.expected`` of a result; figures in GB/s."""

    def figure(value: float | None) -> float | None:
        return None if value is None else round(value, 3)

    return {
        "verdict": expectation.verdict,
        "reason": expectation.reason,
        "formula": expectation.bound.why if expectation.bound.expected_gbps is not None else None,
        "expected_busbw_gbps": figure(expectation.bound.expected_gbps),
        "limit_busbw_gbps": figure(expectation.bound.limit_gbps),
        "size_bytes": expectation.size_bytes,
        "busbw_gbps": figure(expectation.busbw_gbps),
        "share": figure(expectation.share),
    }
