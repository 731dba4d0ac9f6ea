"""The first failure of a group on a device: who raises it, and what happens if the program never calls again."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from collective_core.errors import CollectiveCoreError, Result  # noqa: E402  # after torch was found
from collective_core.torch.cuda_failures import (  # noqa: E402
    CudaFailures,
    check_before_steps,
    no_longer_before_steps,
)
from collective_core.torch.work import CcoreBackendError  # noqa: E402


class FailingHandle:
    """A handle whose device has failed, or not yet."""

    def __init__(self) -> None:
        self.failed = False

    def poll(self) -> None:
        if self.failed:
            raise CollectiveCoreError(Result.TIMEOUT, "waited for rank 1")


@pytest.fixture
def meeting() -> Any:
    aborts: list[int] = []
    return SimpleNamespace(
        handle=FailingHandle(), device="cuda:0", rank=0, aborts=aborts, abort=lambda: aborts.append(1)
    )


def test_the_first_failure_is_raised_by_every_check_and_ends_the_group_once(meeting: Any) -> None:
    failures = CudaFailures(meeting)
    failures.check("all_reduce on rank 0")
    meeting.handle.failed = True
    for name in ("wait", "broadcast"):
        with pytest.raises(CcoreBackendError, match=f"{name}: .*waited for rank 1"):
            failures.check(name)
    assert meeting.aborts == [1]


def test_an_optimizer_steps_only_while_no_group_has_failed(meeting: Any) -> None:
    failures = CudaFailures(meeting)
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    parameter.grad = torch.ones(2)
    check_before_steps(failures)
    optimizer.step()
    meeting.handle.failed = True
    with pytest.raises(CcoreBackendError, match=r"optimizer step: .*waited for rank 1"):
        optimizer.step()
    assert parameter.tolist() == [0.0, 0.0]
    no_longer_before_steps(failures)
    optimizer.step()
    assert parameter.tolist() == [-1.0, -1.0]


def test_a_failure_that_nothing_has_raised_interrupts_the_main_thread(meeting: Any) -> None:
    failures = CudaFailures(meeting)
    failures.end_unheard(0.0)
    meeting.handle.failed = True
    assert failures.look() is not None
    failures.end_unheard(60.0)
    with pytest.raises(CcoreBackendError, match=r"has not called its group since: .*waited for rank 1"):
        failures.end_unheard(0.0)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pass
    failures.end_unheard(0.0)


def test_a_failure_that_was_raised_interrupts_nothing(meeting: Any) -> None:
    failures = CudaFailures(meeting)
    meeting.handle.failed = True
    with pytest.raises(CcoreBackendError):
        failures.check("wait")
    failures.end_unheard(0.0)


def test_on_request_an_unheard_failure_aborts_the_process() -> None:
    program = (
        "from types import SimpleNamespace\n"
        "from collective_core.errors import CollectiveCoreError, Result\n"
        "from collective_core.torch.cuda_failures import CudaFailures\n"
        "meeting = SimpleNamespace(handle=None, device='cuda:0', rank=0, abort=lambda: None)\n"
        "failures = CudaFailures(meeting)\n"
        "failures.fail(CollectiveCoreError(Result.TIMEOUT, 'waited for rank 1'))\n"
        "failures.end_unheard(0.0)\n"
    )
    done = subprocess.run(
        ["/usr/bin/env", "CCORE_CUDA_ERROR=abort", sys.executable, "-c", program],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == -6
    assert "waited for rank 1; aborting" in done.stderr


def test_an_unknown_way_to_end_is_refused(meeting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_ERROR", "ignore")
    with pytest.raises(CollectiveCoreError, match="CCORE_CUDA_ERROR=ignore: expected raise or abort"):
        CudaFailures(meeting)
