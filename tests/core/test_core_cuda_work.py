"""When a Work of a CUDA stream calls the library: `wait` orders streams only where it must."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from collective_core.torch import cuda_work  # noqa: E402  # after torch was found
from collective_core.torch.cuda_library import CAPTURED  # noqa: E402
from collective_core.torch.cuda_work import CudaWork, Launched  # noqa: E402
from collective_core.torch.work import CcoreBackendError  # noqa: E402

CALLERS, GROUPS, OTHER = 7, 8, 9  # streams


class Group:
    """What a work asks of its group, in order."""

    def __init__(self) -> None:
        self.blocks_in_wait = False
        self.timeout_s = 60.0
        self.asked: list[tuple[Any, ...]] = []
        self.fails = False
        self.ended = True

    def flush(self) -> None:
        self.asked.append(("flush",))

    def check(self, description: str) -> None:
        if self.fails:
            raise CcoreBackendError(f"{description}: rank 1 is late")

    def give_up(self, description: str, limit_s: float) -> None:
        self.fails = True
        self.check(f"{description} after {limit_s:g} s")

    def mark(self, stream: int) -> int:
        self.asked.append(("mark", stream))
        return 5

    def let_wait(self, ticket: int, stream: int) -> None:
        self.asked.append(("let_wait", ticket, stream))

    def has_ended(self, ticket: int) -> bool:
        self.asked.append(("has_ended", ticket))
        return self.ended


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The current stream, which a test may change."""
    streams = [CALLERS]
    monkeypatch.setattr(cuda_work, "raw_stream", lambda _: streams[0])
    return streams


def work_of(group: Group) -> CudaWork:
    return CudaWork("all_reduce on rank 0", torch.device("cuda", 0), group)


def test_a_caller_on_the_stream_of_its_operation_waits_for_nothing(current: list[int]) -> None:
    group = Group()
    work = work_of(group)
    work.queued(CALLERS, [])
    assert work.wait()
    assert group.asked == []
    current[0] = OTHER
    work.wait()
    work.wait()
    assert group.asked == [("mark", CALLERS), ("let_wait", 5, OTHER), ("let_wait", 5, OTHER)]


def test_a_wait_for_an_asynchronous_operation_orders_streams_and_drops_its_tensors(
    current: list[int],
) -> None:
    group = Group()
    work, launched = work_of(group), Launched("all_reduce", 3, 0.0, 60.0, [torch.ones(1)])
    work.queued(GROUPS, [], 3, launched)
    work.wait()
    assert group.asked == [("let_wait", 3, CALLERS)]
    assert launched.tensors == []


def test_a_wait_that_blocks_ends_with_the_operation_or_at_its_deadline(current: list[int]) -> None:
    group = Group()
    work = work_of(group)
    work.queued(GROUPS, [], 3, Launched("all_reduce", 3, 0.0, -2.0))
    group.blocks_in_wait = True
    work.wait()
    assert group.asked == [("let_wait", 3, CALLERS), ("has_ended", 3)]
    group.ended = False
    with pytest.raises(CcoreBackendError, match=r"not complete after 0\.001 s"):
        work.wait(timedelta(milliseconds=1))
    with pytest.raises(CcoreBackendError, match="after -2 s: rank 1 is late"):
        work.wait()


def test_a_wait_in_a_capture_does_not_block(current: list[int]) -> None:
    group = Group()
    group.blocks_in_wait = True
    work = work_of(group)
    work.queued(GROUPS, [], CAPTURED | 1)
    work.wait()
    assert group.asked == [("let_wait", CAPTURED | 1, CALLERS)]


def test_a_transfer_that_waits_for_company_is_launched_first(current: list[int]) -> None:
    group = Group()
    with pytest.raises(CcoreBackendError, match="it was not launched"):
        work_of(group).wait()
    assert group.asked == [("flush",)]
