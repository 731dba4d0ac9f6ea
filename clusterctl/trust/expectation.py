"""The bandwidth that the hardware allows for a collective, and what share of it was measured.

Both figures are bus bandwidths in GB/s as nccl-tests defines them (its doc/PERFORMANCE.md). ``expected`` is the speed
of a healthy ring: the share of NVLink's data rate measured on healthy nodes of the generation, or the NICs' line rate.
``limit`` is the speed that no algorithm can exceed, because a minimum number of bytes must cross each link; a higher
figure means that something else was measured. If an input is missing, the verdict is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clusterctl.documents.proof import Expected
from clusterctl.trust.links import NodeLinks, RdmaLink, is_efa

Verdict = Literal["fine", "warn", "slow", "impossible", "unknown"]
FINE_SHARE = 0.85
WARN_SHARE = 0.7
# Smaller messages lose bandwidth to latency, so their share is not meaningful. Collectives with a part for every rank
# round parts to 16 bytes, so that 1 GiB on 24 ranks is slightly smaller.
JUDGED_BYTES = (1 << 30) * 0.999
# Links sometimes exceed the nominal rate slightly, and figures are rounded.
_TOLERANCE = 1.02
# The share of the data rate that a ring reached on healthy nodes: A100 235/300, H200 367/450, B200 682/900 GB/s.
# Source: stas00/ml-engineering, network/README.md, all_reduce_perf with NCCL_NVLS_ENABLE=0.
RING_SHARE = {3: 0.785, 4: 0.8155, 5: 0.758}
# mlx5 gives this name to two bonded ports (LAG) and reports the rate of one port only (NVIDIA/nccl issue 1015).
_BOND = "_bond_"
# EFA's driver before 2.13 (Linux 6.13) reports 100 Gb/s for every device. Instances whose GPUs have NVLink 4 or newer
# have at least 3200 Gb/s: 32 x 100 (P5), 16 x 200 (P5en), 8 x 400 (P6-B200).
_EFA_SAID_GBITPS, _EFA_GBITPS = 100.0, 3200.0
_RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The measured configuration. ``links`` are those of the slowest node; ``in_network`` None: not known."""

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
    """A bound. ``why``: how it was computed, or the missing input (``expected_gbps`` None)."""

    expected_gbps: float | None
    limit_gbps: float | None
    why: str


def _unknown(why: str) -> Bound:
    return Bound(None, None, why)


def _fastest(ports: Sequence[RdmaLink]) -> list[RdmaLink]:
    """Return the ports with the highest rate; slower ports serve storage and management."""
    top = max(port.rate_gbitps for port in ports)
    return [port for port in ports if port.rate_gbitps == top]


def line_rate_gbps(ports: Sequence[RdmaLink]) -> float:
    """Return the GB/s of the fastest ports."""
    return sum(port.rate_gbitps for port in _fastest(ports)) / 8


def bound(inputs: Inputs) -> Bound:
    """Return the bound of a collective, or the reason why it is unknown."""
    links, n = inputs.links, inputs.ranks
    if links is None:
        return _unknown("the nodes' links are not known")
    if n < 2:
        return _unknown("one rank sends nothing")
    if inputs.collective not in (*_RINGS, "alltoall"):
        return _unknown(f"no bound is defined for {inputs.collective}")
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
        return _unknown("no reference measurement for this NVLink generation")
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
        return _unknown("no active RDMA port: the rate of the nodes' other network is not known")
    if inputs.nvlink_between_nodes:
        return _unknown("NVLink also connects the nodes (MNNVL), so the NICs are not the limit")
    if inputs.nvlink_between_nodes is None and links.nvlink is not None and links.nvlink.generation >= 5:
        return _unknown("unknown whether NVLink connects the nodes (MNNVL)")
    if inside is not None and inside.expected_gbps is None:
        return inside
    if local != links.gpus:
        return _unknown(
            f"{local} of {links.gpus} GPUs per node take part, and how many of the NICs serve them is not known"
        )
    bonds = [port.device for port in _fastest(links.rdma) if _BOND in port.device]
    if bonds:
        return _unknown(f"the driver reports only the rate of one port of each bond ({', '.join(bonds)})")
    if _unknown_to_the_driver(links):
        return _unknown(
            "the rate of the EFAs is not known: EFA's driver before 2.13 reports 100 Gb/s for each"
        )
    n, nodes = inputs.ranks, inputs.nodes
    wire = line_rate_gbps(links.rdma)
    every = sum(port.rate_gbitps for port in links.rdma) / 8
    leaves = ((n - 1) / n) * (nodes / (nodes - 1))
    if inputs.collective == "alltoall":
        # The share of each rank's data for ranks on other nodes leaves through the node's NICs.
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


def judge(inputs: Inputs, rows: Sequence[tuple[int, float]]) -> Expected:
    """Compare the rows (bytes, busbw in GB/s) of one sweep with the bound.

    Figures are in GB/s. A figure above the limit at any size is impossible; the share is that of the best row of
    1 GiB or more.
    """
    found = bound(inputs)
    if found.expected_gbps is None or found.limit_gbps is None:
        return _expected(found, "unknown", None, found.why)
    if not rows:
        return _expected(found, "unknown", None, "nothing was measured")
    best = max(rows, key=lambda row: row[1])
    if best[1] > found.limit_gbps * _TOLERANCE:
        reason = (
            f"{best[1]:.1f} GB/s is more than the links can carry ({found.limit_gbps:.0f} GB/s): "
            "the hardware or ranks differ, or the data was not transferred"
        )
        return _expected(found, "impossible", best, reason)
    judged = [row for row in rows if row[0] >= JUDGED_BYTES]
    if not judged:
        reason = "bandwidth is judged at 1 GiB and above: measure larger messages (-e 1G)"
        return _expected(found, "unknown", best, reason)
    best = max(judged, key=lambda row: row[1])
    share = best[1] / found.expected_gbps
    verdict: Verdict = "fine" if share >= FINE_SHARE else "warn" if share >= WARN_SHARE else "slow"
    return _expected(found, verdict, best, found.why)


def _expected(found: Bound, verdict: Verdict, best: tuple[int, float] | None, reason: str) -> Expected:
    size, busbw = best or (None, None)
    known = found.expected_gbps is not None
    share = None if busbw is None or found.expected_gbps is None else busbw / found.expected_gbps
    figures = (found.expected_gbps, found.limit_gbps, busbw, share)
    expected, limit, busbw, share = (None if value is None else round(value, 3) for value in figures)
    return Expected(
        verdict=verdict,
        reason=reason,
        formula=found.why if known else None,
        expected_busbw_gbps=expected,
        limit_busbw_gbps=limit,
        size_bytes=size,
        busbw_gbps=busbw,
        share=share,
    )
