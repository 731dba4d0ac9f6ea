"""The table of all rows, in the order in which they run and are reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from clusterctl.acceptance.model import AcceptRow, Tier
from clusterctl.acceptance.rows import cpu, disk, fleet, gpu, rdma, sanity, tcp, tools
from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean

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


_IN_ORDER = tuple(Tier)


def chosen(
    rows: Sequence[AcceptRow], tier: Tier, only: Collection[str] | None, skip: Collection[str]
) -> tuple[AcceptRow, ...]:
    """Return the rows of a tier and of the cheaper ones, or those that ``only`` names, without those of ``skip``.

    Raise UsageError for a name that no row has, and if no row remains.
    """
    known = [row.name for row in rows]
    for name in (*(only or ()), *skip):
        if name not in known:
            raise UsageError(f"unknown row {name!r}", hint=did_you_mean(name, known))
    wanted = [
        row for row in rows
        if (row.name in only if only is not None else _IN_ORDER.index(row.tier) <= _IN_ORDER.index(tier))
        and row.name not in skip
    ]  # fmt: skip
    if not wanted:
        raise UsageError("no row remains to run", hint="name fewer rows in --skip, or a higher --tier")
    return tuple(wanted)
