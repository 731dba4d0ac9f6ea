"""The agreement on the next call, ranks as threads with a wire of memory: any order of calls, joins, no hang."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest


class Wire:
    """One rank's end of an exchange between threads."""

    def __init__(self, rank: int, table: list[Any], meet: threading.Barrier) -> None:
        self.rank, self.table, self.meet = rank, table, meet
        self.exchanges = 0

    def gather(self, value: Any) -> list[Any]:
        self.exchanges += 1
        self.table[self.rank] = value
        self.meet.wait(30)
        result = list(self.table)
        self.meet.wait(30)
        return result

    gather_texts = gather


class Calls:
    """Calls that come one by one, whenever the agreement waits for more; then the rank joins."""

    def __init__(self, coming: list[Any], joins: bool) -> None:
        self.coming, self.joins = coming, joins
        self.waiting: dict[str, Any] = {}

    def more(self) -> None:
        if self.coming:
            request = self.coming.pop(0)
            self.waiting[request.name] = request

    def first(self) -> Any:
        if not self.waiting:
            self.more()
        assert self.waiting or self.joins
        return next(iter(self.waiting.values()), None)

    def names(self) -> list[str]:
        return list(self.waiting)

    def named(self, name: str) -> Any:
        return self.waiting[name]

    def wait_for_more(self, missing: str) -> None:
        if not self.coming:
            raise TimeoutError(missing)
        self.more()


def run(orders: list[list[Any]], *, joins: bool = False) -> tuple[list[list[Any]], list[Wire]]:
    """Let each rank make its calls; returns what each was assigned to run, and the wires."""
    from collective_core.horovod.agreement import agree

    size = len(orders)
    table: list[Any] = [None] * size
    meet = threading.Barrier(size)
    wires = [Wire(rank, table, meet) for rank in range(size)]
    told: list[list[Any]] = [[] for _ in range(size)]
    failures: list[BaseException] = []

    def rank(number: int) -> None:
        calls, ran = Calls(list(orders[number]), joins), 0
        try:
            while joins or calls.waiting or calls.coming:
                agreed = agree(wires[number], calls, ran)
                if isinstance(agreed, int):
                    told[number].append(agreed)
                    return
                name = agreed.request.name if agreed.request else None
                told[number].append((name, str(agreed.error) if agreed.error else None))
                ran += name is not None and calls.waiting.pop(name, None) is not None
        except BaseException as error:  # noqa: BLE001  # told to the test below
            failures.append(error)
            meet.abort()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise next(
            (one for one in failures if not isinstance(one, threading.BrokenBarrierError)), failures[0]
        )
    return told, wires


@pytest.fixture(scope="module")
def call() -> Callable[..., Any]:
    import torch
    from collective_core.horovod.requests import Kind, Request

    def make(name: str, length: int = 1, kind: str = "allreduce") -> Any:
        return Request(Kind(kind), name, [torch.zeros(length)])

    return make


@pytest.mark.parametrize("seed", range(30))
def test_any_orders_are_matched(call: Callable[..., Any], seed: int) -> None:
    dice = random.Random(seed)
    size, count = dice.randint(1, 5), dice.randint(1, 12)
    names = [f"call{number}" for number in range(count)]
    orders = [[call(name) for name in dice.sample(names, count)] for _ in range(size)]
    told, _ = run(orders)
    assert all(one == told[0] for one in told)
    assert sorted(name for name, _ in told[0]) == sorted(names)


def test_one_order_costs_one_exchange_a_call(call: Callable[..., Any]) -> None:
    names = ["a", "b", "c"]
    told, wires = run([[call(name) for name in names] for _ in range(3)])
    assert told[0] == [(name, None) for name in names]
    assert [wire.exchanges for wire in wires] == [3] * 3


def test_joined_ranks_stand_in_and_the_last_is_known(call: Callable[..., Any]) -> None:
    orders = [[call(f"step{step}") for step in range(steps)] for steps in (2, 4, 1)]
    told, _ = run(orders, joins=True)
    assert told == [[(f"step{step}", None) for step in range(4)] + [1]] * 3


def test_what_a_joined_rank_cannot_take_part_in_is_refused_by_all(call: Callable[..., Any]) -> None:
    told, _ = run([[], [call("rows", kind="allgather")]], joins=True)
    refusal = "'rows': while a rank has joined, only allreduce and barrier are possible"
    assert told == [[(None, refusal), 1], [("rows", refusal), 1]]


def test_differences_name_both_sides(call: Callable[..., Any]) -> None:
    told, _ = run([[call("x", 1)], [call("x", 2)], [call("x", 1)]])
    assert told[0] == told[1] == told[2]
    text = told[0][0][1]
    assert text.startswith("the ranks disagree about 'x': rank 0, 2: {")
    assert '["float32", [1]]' in text
    assert 'rank 1: {"call": "allreduce", "tensors": [["float32", [2]]]' in text


def test_calls_that_never_meet_are_named(call: Callable[..., Any]) -> None:
    with pytest.raises(TimeoutError, match="a waits for rank 1; b waits for rank 0"):
        run([[call("a")], [call("b")]])
