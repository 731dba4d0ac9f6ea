"""What a communicator used: the variables that took effect, and the algorithms of its operations, by size."""

from __future__ import annotations

from ctypes import c_float

import pytest
from collective_core.call_counts import CallCounts
from collective_core.communicator import Communicator
from collective_core.enums import Dtype, Operation, Reason, SettingSource
from collective_core.observation import Setting
from collective_core.unique_id import get_unique_id
from collective_core.usage import UsageRecorder, settings_in_effect

from collective_core import environment

NOT_READABLE = "rank 1 may not read"
SETTINGS = [
    Setting("CCORE_TIMEOUT_S", "300", SettingSource.CONFIG, "CCORE_TIMEOUT_S", "", False),
    Setting("CCORE_2D", "0", SettingSource.ENVIRONMENT, "LIGHT_2D_ALLREDUCE", "", False),
    Setting("CCORE_ALGO", "all_reduce:ring", SettingSource.RANK_0, "CCORE_ALGO", "", False),
    Setting("CCORE_CMA", "0", SettingSource.NOT_USED, "CCORE_CMA", NOT_READABLE, False),
    Setting("CCORE_NET", "rdma", SettingSource.RANK_0, "CCORE_NET", "proven over mlx5_0", False),
    Setting("CCORE_SHM_RING_BYTES", "262144", SettingSource.DEFAULT, "", "", False),
    Setting("CCORE_JOB_SECRET", "***", SettingSource.ENVIRONMENT, "CCORE_JOB_SECRET", "", True),
]


@pytest.fixture(autouse=True)
def _nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_read", {})


def test_variables_are_named_as_they_were_set(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "LIGHT_2D_ALLREDUCE": "0", "HOROVOD_TORUS_ALLREDUCE": "1", "CCORE_ALGO": "all_reduce:ring",
        "CCORE_TIMEOUT_S": "9", "CCORE_CMA": "1", "CCORE_NET": "rdma", "CCORE_TOPK_ALLREDUCE": "1",
        "CCORE_CPU_BINDING": "1",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CCORE_JOB_SECRET", "hunter2")
    assert environment.flag("CCORE_CPU_BINDING", fallback=False)
    read, ignored = settings_in_effect(SETTINGS)
    assert read == {
        "CCORE_CPU_BINDING": "1", "LIGHT_2D_ALLREDUCE": "0", "CCORE_ALGO": "all_reduce:ring", "CCORE_NET": "rdma",
    }  # fmt: skip
    assert ignored == {
        "HOROVOD_TORUS_ALLREDUCE": "LIGHT_2D_ALLREDUCE=0 takes precedence",
        "CCORE_TIMEOUT_S": "the program sets it itself", "CCORE_CMA": "not used: rank 1 may not read",
    }  # fmt: skip


def test_a_switch_that_is_off_as_asked_took_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CMA", "0")
    assert settings_in_effect(SETTINGS) == ({"CCORE_CMA": "0"}, {})


def test_the_settings_of_a_communicator_are_those_of_the_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHT_2D_ALLREDUCE", "0")
    monkeypatch.setenv("CCORE_JOB_SECRET", "hunter2")
    with Communicator(0, 1, get_unique_id(), timeout_s=4) as communicator:
        settings, dump = communicator.settings(), communicator.dump_config()
    assert [f"{one.name}={one.value}" for one in settings] == [
        line.rpartition(" (")[0] for line in dump.splitlines()
    ]
    by_name = {one.name: one for one in settings}
    assert by_name["CCORE_TIMEOUT_S"].source is SettingSource.CONFIG
    assert by_name["CCORE_2D"].spelled == "LIGHT_2D_ALLREDUCE"
    assert by_name["CCORE_JOB_SECRET"].is_secret
    assert "hunter2" not in dump


def test_a_communicator_describes_its_next_operation() -> None:
    with Communicator(0, 1, get_unique_id()) as communicator:
        found = communicator.describe(Operation.ALL_REDUCE, 1000, Dtype.FLOAT16)
        barrier = communicator.describe(Operation.BARRIER, 0, Dtype.UINT8)
    assert (found.size_bytes, found.path, found.transport) == (2000, "host", "self")
    assert (barrier.algorithm, barrier.reason) == ("dissemination", Reason.ONLY)


def test_operations_are_counted_by_size_without_those_that_are_skipped() -> None:
    communicator = Communicator(0, 1, get_unique_id())
    recorder = UsageRecorder(communicator)
    data, half = (c_float * 4)(), (c_float * 2)()
    communicator.all_reduce(data, data)
    recorder.skip()
    for _ in range(200):
        communicator.all_reduce(data, data)
    communicator.all_reduce(half, half)
    recorder.look()
    recorder.look()
    counts = {(operation, size): calls for (operation, size, _), calls in recorder.usage().calls.items()}
    assert not any(row.is_rounded for row in communicator.counts())
    communicator.destroy()
    assert counts == {("all_reduce", 16): 200, ("all_reduce", 8): 1}


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
