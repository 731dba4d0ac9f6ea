"""Ranks that share a GPU: which one they take, and what each NCCL needs for it."""

import os
import shutil
import subprocess

import pytest
import torch

from clusterctl.workloads import places, ranks, shared_gpu


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    """Restore the variables that NCCL reads, which the code sets."""
    for name in ("NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_MAX_CTAS", "NCCL_HOSTID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def prepare(version, local_rank=0, per_gpu=2):
    return shared_gpu.prepare_nccl(version, host="h", local_rank=local_rank, gpus=1, per_gpu=per_gpu)


def test_a_new_nccl_is_told_and_an_old_one_sees_separate_hosts():
    assert prepare(23007) == "NCCL_MULTI_RANK_GPU_ENABLE=1"
    assert "NCCL_MAX_CTAS" not in os.environ
    prepare(23007, per_gpu=4)
    assert os.environ["NCCL_MAX_CTAS"] == "16"
    for version in (22809, None):
        os.environ.pop("NCCL_HOSTID", None)
        assert "NCCL_HOSTID" in prepare(version, local_rank=3)
        assert os.environ["NCCL_HOSTID"] == "h-3"


@pytest.mark.parametrize(
    ("enabled", "words"), [(0, "in time slices, without MPS"), (1, "at the same time, with MPS"), (-1, None)]
)
def test_the_driver_reports_whether_ranks_take_turns(tmp_path, enabled, words, tier_unavailable):
    """A driver with two functions; attribute 133 of CUDA 12 is MPS_ENABLED."""
    if shutil.which("cc") is None:
        tier_unavailable("cc is not installed")
    (tmp_path / "cuda.c").write_text(
        "int cuInit(unsigned flags) { return 0; }\n"
        "int cuDeviceGetAttribute(int *value, int attribute, int device) {\n"
        f"  *value = {enabled}; return attribute != 133 || device != 2 || {enabled} < 0; }}\n"
    )
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ("cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "cuda.c")), check=True, timeout=60
    )
    assert shared_gpu.way_to_share(2, str(library)) == words
    assert shared_gpu.way_to_share(2, str(tmp_path / "absent.so")) is None


def test_ranks_take_the_gpus_round_robin_if_they_may_share(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    place = places.Place("local", 3, 4, 3, 4)
    with pytest.raises(places.RankError, match="--oversubscribe"):
        ranks.choose_device(place, "auto")
    monkeypatch.setenv(shared_gpu.SHARE_GPUS, "1")
    assert ranks.choose_device(place, "auto") == torch.device("cuda", 1) == chosen[0]
    assert ranks.sharing(place, "ccore", chosen[0]) == "2"
    assert ranks.sharing(places.Place("local", 1, 2, 1, 2), "ccore", chosen[0]) is None


def test_a_library_that_is_no_nccl_has_no_version():
    assert shared_gpu.nccl_version(None) is None
    assert shared_gpu.nccl_version("/nonexistent/libnccl.so.2") is None
