"""The operations that all ranks of a communicator call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_size_t, sizeof
from typing import Any

from collective_core import _lib
from collective_core.buffers import as_buffer, expect, same_type
from collective_core.enums import Dtype, Redop
from collective_core.handle import Handle
from collective_core.topk import Plan, Residual, Topk


class Collectives(Handle):
    """Each call blocks; `timeout_s` is its deadline, the communicator's without one."""

    def all_reduce(self, send: Any, recv: Any, op: Redop = Redop.SUM, timeout_s: float | None = None) -> None:
        """Reduce `send` of all ranks into `recv` of each; they may be the same array."""
        source, target = as_buffer(send), as_buffer(recv, written=True)
        same_type(source, target)
        expect(target.count == source.count, "recv and send differ in length")
        self._call(
            "cc_all_reduce",
            source.address,
            target.address,
            source.count,
            int(source.dtype),
            int(op),
            timeout_s=timeout_s,
        )

    def topk_all_reduce(
        self,
        send: Any,
        recv: Any,
        residual: Residual | None,
        topk: Topk | None = None,
        op: Redop = Redop.SUM,
        timeout_s: float | None = None,
    ) -> None:
        """Reduce as `all_reduce` does, but send only the largest elements between nodes.

        What is not sent is in `residual`, which belongs to this one tensor, and is sent later; without one it is lost.
        float32, float16 and bfloat16; SUM and AVG.
        """
        source, target = as_buffer(send), as_buffer(recv, written=True)
        same_type(source, target)
        expect(target.count == source.count, "recv and send differ in length")
        self._call(
            "cc_topk_all_reduce",
            source.address, target.address, source.count, int(source.dtype), int(op),
            byref((topk or Topk()).as_options()),
            None if residual is None else residual.handle,
            timeout_s=timeout_s,
        )  # fmt: skip

    def topk_plan(self, count: int, dtype: Dtype, topk: Topk | None = None) -> Plan:
        """Return what `topk_all_reduce` of so many elements does on this rank."""
        plan = _lib.TopkPlan(size=sizeof(_lib.TopkPlan))
        options = (topk or Topk()).as_options()
        _lib.check(
            self._library.cc_topk_get_plan(self._live(), count, int(dtype), byref(options), byref(plan))
        )
        return Plan(
            plan.compressed != 0, plan.nodes, plan.shards, plan.shard_begin, plan.shard_count, plan.kept
        )

    def broadcast(self, array: Any, root: int, timeout_s: float | None = None) -> None:
        """Copy `array` of the root into `array` of the others."""
        data = as_buffer(array, written=self.rank != root)
        self._call(
            "cc_broadcast", data.address, data.address, data.count, int(data.dtype), root, timeout_s=timeout_s
        )

    def all_gather(self, send: Any, recv: Any, timeout_s: float | None = None) -> None:
        """Concatenate `send` of all ranks into `recv`, which is `size` times as long."""
        source, target = as_buffer(send), as_buffer(recv, written=True)
        same_type(source, target)
        expect(target.count == self.size * source.count, "recv must have size times the elements of send")
        self._call(
            "cc_all_gather",
            source.address,
            target.address,
            source.count,
            int(source.dtype),
            timeout_s=timeout_s,
        )

    def reduce_scatter(
        self, send: Any, recv: Any, op: Redop = Redop.SUM, timeout_s: float | None = None
    ) -> None:
        """Reduce `send`, which is `size` times as long as `recv`, and keep this rank's block."""
        source, target = as_buffer(send), as_buffer(recv, written=True)
        same_type(source, target)
        expect(source.count == self.size * target.count, "send must have size times the elements of recv")
        self._call(
            "cc_reduce_scatter",
            source.address,
            target.address,
            target.count,
            int(source.dtype),
            int(op),
            timeout_s=timeout_s,
        )

    def reduce(
        self, send: Any, recv: Any, root: int, op: Redop = Redop.SUM, timeout_s: float | None = None
    ) -> None:
        """Reduce `send` of all ranks into `recv` of the root; elsewhere `recv` is not read."""
        source = as_buffer(send)
        target = as_buffer(recv, written=True) if self.rank == root else source
        same_type(source, target)
        expect(target.count == source.count, "recv and send differ in length")
        self._call(
            "cc_reduce", source.address, target.address, source.count, int(source.dtype), int(op), root,
            timeout_s=timeout_s,
        )  # fmt: skip

    def gather(self, send: Any, recv: Any, root: int, timeout_s: float | None = None) -> None:
        """Concatenate `send` of all ranks into `recv` of the root; elsewhere `recv` is not read."""
        source = as_buffer(send)
        address = 0
        if self.rank == root:
            target = as_buffer(recv, written=True)
            same_type(source, target)
            expect(target.count == self.size * source.count, "recv must have size times the elements of send")
            address = target.address
        self._call(
            "cc_gather", source.address, address, source.count, int(source.dtype), root, timeout_s=timeout_s
        )

    def scatter(self, send: Any, recv: Any, root: int, timeout_s: float | None = None) -> None:
        """Give each rank its block of `send` of the root; elsewhere `send` is not read."""
        target = as_buffer(recv, written=True)
        address = 0
        if self.rank == root:
            source = as_buffer(send)
            same_type(source, target)
            expect(source.count == self.size * target.count, "send must have size times the elements of recv")
            address = source.address
        self._call(
            "cc_scatter", address, target.address, target.count, int(target.dtype), root, timeout_s=timeout_s
        )

    def all_to_all(
        self,
        send: Any,
        recv: Any,
        send_counts: Sequence[int] | None = None,
        recv_counts: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Give rank r block r of `send`, and take its block; without counts, all blocks are equal."""
        source, target = as_buffer(send), as_buffer(recv, written=True)
        same_type(source, target)
        if send_counts is None and recv_counts is None:
            expect(
                target.count == source.count and source.count % self.size == 0,
                "send and recv must agree in length, a multiple of the number of ranks",
            )
            self._call(
                "cc_all_to_all", source.address, target.address, source.count // self.size, int(source.dtype),
                timeout_s=timeout_s,
            )  # fmt: skip
            return
        leaving = send_counts or [source.count // self.size] * self.size
        coming = recv_counts or [target.count // self.size] * self.size
        expect(sum(leaving) == source.count, "the counts of send do not add up to its length")
        expect(sum(coming) == target.count, "the counts of recv do not add up to its length")
        self._call(
            "cc_all_to_allv",
            source.address, *self._blocks(leaving), target.address, *self._blocks(coming), int(source.dtype),
            timeout_s=timeout_s,
        )  # fmt: skip

    def all_gatherv(
        self, send: Any, recv: Any, counts: Sequence[int], timeout_s: float | None = None
    ) -> None:
        """Concatenate `send` of all ranks, of `counts[r]` elements on rank r, into `recv` of each."""
        source, target = as_buffer(send), as_buffer(recv, written=True)
        same_type(source, target)
        blocks = self._blocks(counts)
        expect(source.count == counts[self.rank], "send has not the length that the counts say")
        expect(target.count == sum(counts), "the counts do not add up to the length of recv")
        self._call(
            "cc_all_gatherv", source.address, target.address, *blocks, int(source.dtype), timeout_s=timeout_s
        )

    def _blocks(self, counts: Sequence[int]) -> tuple[ctypes.Array[c_size_t], ctypes.Array[c_size_t]]:
        expect(len(counts) == self.size, "there must be one count per rank")
        expect(all(count >= 0 for count in counts), "a count is negative")
        offsets = [sum(counts[:rank]) for rank in range(self.size)]
        return (c_size_t * self.size)(*counts), (c_size_t * self.size)(*offsets)

    def barrier(self, timeout_s: float | None = None) -> None:
        """Return when all ranks have called it."""
        self._call("cc_barrier", timeout_s=timeout_s)
