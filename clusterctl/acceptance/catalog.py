"""The table of all rows, in the order in which they run and are reported."""

from __future__ import annotations

from clusterctl.acceptance.model import AcceptRow, Tier
from clusterctl.acceptance.rows import cpu, disk, fleet, gpu, rdma, sanity, tcp, tools

_BY_HARDWARE: tuple[AcceptRow, ...] = (
    *sanity.ROWS,
    *gpu.ROWS,
    *cpu.ROWS,
    *disk.ROWS,
    *rdma.ROWS,
    *tcp.ROWS,
    *tools.ROWS,
    *fleet.ROWS,
    *rdma.AT_THE_END,
    *sanity.AT_THE_END,
)
ROWS = tuple(row for tier in Tier for row in _BY_HARDWARE if row.tier is tier)
"""Cheap rows come first: they tell whether the others are worth their time."""
