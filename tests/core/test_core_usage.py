"""What a communicator used: the variables that took effect, and the algorithms of its operations, by size."""

from __future__ import annotations

from ctypes import c_float

import pytest
from collective_core.call_counts import CallCounts
from collective_core.communicator import Communicator
from collective_core.unique_id import get_unique_id
from collective_core.usage import UsageRecorder, settings_in_effect

from collective_core import environment

DUMP = """\
CCORE_TIMEOUT_S=300 (cc_config)
CCORE_2D=0 (environment, as LIGHT_2D_ALLREDUCE)
CCORE_ALGO=all_reduce:ring (rank 0, whose value counts for all)
CCORE_CMA=0 (not used: rank 1 may not read)
CCORE_SHM_RING_BYTES=262144 (default)
CCORE_JOB_SECRET=*** (environment)
"""


@pytest.fixture(autouse=True)
def _nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_read", {})


def test_variables_are_named_as_they_were_set(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "LIGHT_2D_ALLREDUCE": "0", "HOROVOD_TORUS_ALLREDUCE": "1", "CCORE_ALGO": "all_reduce:ring",
        "CCORE_TIMEOUT_S": "9", "CCORE_CMA": "1", "CCORE_TOPK_ALLREDUCE": "1", "CCORE_CPU_BINDING": "1",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CCORE_JOB_SECRET", "hunter2")
    assert environment.flag("CCORE_CPU_BINDING", fallback=False)
    read, ignored = settings_in_effect(DUMP)
    assert read == {
        "CCORE_CPU_BINDING": "1", "LIGHT_2D_ALLREDUCE": "0", "CCORE_ALGO": "all_reduce:ring"
    }  # fmt: skip
    assert ignored == {
        "HOROVOD_TORUS_ALLREDUCE": "LIGHT_2D_ALLREDUCE=0 takes precedence",
        "CCORE_TIMEOUT_S": "the program sets it itself", "CCORE_CMA": "not used: rank 1 may not read",
    }  # fmt: skip


def test_a_switch_that_is_off_as_asked_took_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CMA", "0")
    assert settings_in_effect(DUMP) == ({"CCORE_CMA": "0"}, {})


def test_operations_are_counted_by_size_without_those_that_are_skipped() -> None:
    communicator = Communicator(0, 1, get_unique_id())
    recorder = UsageRecorder(communicator)
    data, half = (c_float * 4)(), (c_float * 2)()
    communicator.all_reduce(data, data)
    recorder.skip()
    for _ in range(2):
        communicator.all_reduce(data, data)
    communicator.all_reduce(half, half)
    recorder.look()
    recorder.look()
    counts = {(operation, size): calls for (operation, size, _), calls in recorder.usage().calls.items()}
    communicator.destroy()
    assert counts == {("all_reduce", 16): 2, ("all_reduce", 8): 1}


def test_operations_on_the_gpu_are_counted_as_those_of_the_library() -> None:
    on_device = CallCounts()
    on_device.add("topk_all_reduce", 4096, "gpu")
    with Communicator(0, 1, get_unique_id()) as communicator:
        recorder = UsageRecorder(communicator, on_device)
        recorder.skip()
        for _ in range(2):
            on_device.add("topk_all_reduce", 4096, "gpu")
            recorder.look()
        recorder.skip()
        on_device.add("all_reduce", 4096, "2d_gpu")
        recorder.look()
        calls = recorder.usage().calls
    assert calls == {("topk_all_reduce", 4096, "gpu"): 2, ("all_reduce", 4096, "2d_gpu"): 1}
