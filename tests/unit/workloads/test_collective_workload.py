"""The collective workload: nccl-tests' columns from torch, and wrong sums that are counted."""

import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from clusterctl.benchmarks import all_reduce
from clusterctl.workloads import collective_perf, ranks


@pytest.fixture
def alone():
    place = ranks.Place("none", 0, 1, 0, 1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield place
    dist.destroy_process_group()


def test_its_output_reads_as_nccl_tests():
    done = subprocess.run(
        [sys.executable, "-m", "clusterctl.workloads", "collective", "-b", "8", "-e", "4K", "-f", "8", "-n", "2"],
        capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sweep = all_reduce.parse(done.stdout)
    assert [row.size_bytes for row in sweep.rows] == [8, 64, 512, 4096]
    assert all(row.in_place.wrong == 0 for row in sweep.rows)
    assert all(row.out_of_place.time_us is None for row in sweep.rows)
    assert len(sweep.ranks) == 1
    assert sweep.faults == ()
    assert any(line.startswith("Library gloo") for line in sweep.libraries)


def test_wrong_sums_are_counted(alone, monkeypatch):
    """A collective that does not add: one that spoils two elements is caught with exactly two."""
    buffer = torch.zeros(10)
    assert collective_perf.count_wrong(buffer, alone) == 0
    real = dist.all_reduce
    calls = []

    def spoil(tensor, *arguments, **options):
        real(tensor, *arguments, **options)
        if not calls:
            tensor[3] += 1
            tensor[7] -= 1
        calls.append(1)

    monkeypatch.setattr(collective_perf.dist, "all_reduce", spoil)
    assert collective_perf.count_wrong(buffer, alone) == 2


@pytest.mark.parametrize(("text", "size"), [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("2G", 2 << 30)])
def test_sizes_are_read_as_nccl_tests_does(text, size):
    assert collective_perf.parse_size(text) == size


def test_a_sweep_that_goes_backwards_is_refused():
    with pytest.raises(ranks.RankError):
        collective_perf.sizes(1024, 8, 2)
    assert collective_perf.sizes(8, 100, 1) == [8]
