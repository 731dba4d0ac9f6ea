"""Horovod's names of the reductions."""

from __future__ import annotations

from enum import IntEnum

from collective_core.horovod.common.exceptions import not_supported


class ReduceOp(IntEnum):
    """The numbers are Horovod's."""

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT


def chosen(op: int | None, average: bool | None) -> ReduceOp:
    """Return the reduction of a call; `average` is Horovod's older way to say it."""
    if op is not None and average is not None:
        raise ValueError("give op or average, not both; average is the older of the two")
    if op is None:
        op = Sum if average is False else Average
    found = ReduceOp(op)
    if found is Adasum:
        raise not_supported("op=Adasum", "use op=Average")
    return found
