"""The collective workload: nccl-tests' columns from torch, and wrong sums that are counted."""

import contextlib
import dataclasses
import os
import sys

import pytest
import torch
import torch.distributed as dist
import warm_python

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.collective import COLLECTIVES
from clusterctl.trust import usage
from clusterctl.workloads import collective_perf, collectives, places
from clusterctl.workloads.device.sensors import NO_GPU
from clusterctl.workloads.shared_gpu import TIME_SLICES


@pytest.fixture
def alone():
    place = places.Place("none", 0, 1, 0, 1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield place
    dist.destroy_process_group()


def test_its_output_reads_as_nccl_tests():
    done = warm_python.run(
        [sys.executable, "-m", "clusterctl.workloads", "collective", "-b", "8", "-e", "4K", "-f", "8", "-n", "2"],
        {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "lo"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sweep = perf_output.parse(done.stdout)
    assert [row.size_bytes for row in sweep.rows] == [8, 64, 512, 4096]
    assert all(row.in_place.wrong == 0 for row in sweep.rows)
    assert all(row.out_of_place.time_us is None for row in sweep.rows)
    assert len(sweep.ranks) == 1
    assert sweep.faults == ()
    assert any(line.startswith("Library gloo") for line in sweep.libraries)
    assert [one.energy for one in usage.of_table(done.stdout)] == [NO_GPU]


@pytest.mark.parametrize("name", sorted(collectives.ALL))
def test_wrong_elements_are_counted(alone, name):
    """A collective that does its work, and one that spoils two elements of what it did: caught with exactly two."""
    real = collectives.ALL[name]

    def spoil(buffers):
        real.call(buffers)
        buffers.recv[3] += 1
        buffers.recv[7] -= 1

    buffers = collectives.make(real, 10, torch.float32, torch.device("cpu"))
    assert collectives.count_wrong(real, buffers) == 0
    assert collectives.count_wrong(dataclasses.replace(real, call=spoil), buffers) == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("size", [2, 200, 1000, 5000])
def test_sums_of_any_number_of_ranks_are_exact_in_every_type(size, dtype):
    """Added one rank after another in the type's own arithmetic, as a ring does; and no rank may be left out."""
    chosen, count = collectives.ALL["all_reduce"], 100
    tensor = torch.zeros(count, dtype=dtype)
    buffers = collectives.Buffers(tensor, tensor, count, 0, size)
    of = collectives.values(chosen, buffers)
    for rank in range(size):
        put = of(rank, 0).to(dtype)
        assert put.any()
        tensor += put
    assert torch.equal(tensor, chosen.expected(buffers, of).to(dtype))
    assert tensor.max() <= 256


# Elsewhere the type is float, and reductions sum.
KINDS = {"all_reduce": ("int8", "prod"), "reduce_scatter": ("half", "max"), "reduce": ("int64", "min")}


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("op", "combine"), [("prod", torch.mul), ("max", torch.maximum), ("min", torch.minimum)]
)
@pytest.mark.parametrize("size", [2, 5, 200])
def test_every_operator_is_exact_in_every_type(size, op, combine, dtype):
    chosen, count = collectives.ALL["all_reduce"], 100
    tensor = torch.zeros(count, dtype=dtype)
    buffers = collectives.Buffers(tensor, tensor, count, 0, size, op)
    of = collectives.values(chosen, buffers)
    found = of(0, 0).to(dtype)
    for rank in range(1, size):
        found = combine(found, of(rank, 0).to(dtype))
    assert torch.equal(found, chosen.expected(buffers, of).to(dtype))
    assert op == "min" or found.max() > 1


@pytest.mark.parametrize("name", sorted(collectives.ALL))
def test_every_collective_between_two_ranks(name, free_port):
    datatype, op = KINDS.get(name, ("float", "sum"))
    ranks_ = [
        warm_python.start(
            [sys.executable, "-m", "clusterctl.workloads", "collective", name, "-b", "96", "-e", "6K", "-f", "8",
             "-n", "2", "--backend", "gloo", "-d", datatype, "-o", op],
            {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(free_port), "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                 "LOCAL_WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=120) for process in ranks_]
    assert [process.returncode for process in ranks_] == [0, 0], outputs
    sweep = perf_output.parse(outputs[0][0])
    chosen = collectives.ALL[name]
    assert [row.size_bytes for row in sweep.rows] == [96, 768, 6144]
    width = torch.empty((), dtype=collective_perf.DTYPES[datatype]).element_size()
    assert [row.count for row in sweep.rows] == [
        size // width // (2 if chosen.split else 1) for size in (96, 768, 6144)
    ]
    assert {(row.dtype, row.redop) for row in sweep.rows} == {(datatype, op if chosen.reduces else "none")}
    for row in sweep.rows:
        half, other = (
            (row.in_place, row.out_of_place) if chosen.in_place else (row.out_of_place, row.in_place)
        )
        assert (half.wrong, other.time_us) == (0, None)
        # Both are printed with two digits.
        assert half.busbw_gbps == pytest.approx(half.algbw_gbps * chosen.bus_factor(2), abs=0.02)
    assert sweep.faults == ()


@pytest.mark.parametrize(("text", "size"), [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("2G", 2 << 30)])
def test_sizes_are_read_as_nccl_tests_does(text, size):
    assert collective_perf.parse_size(text) == size


def test_a_sweep_that_goes_backwards_is_refused():
    with pytest.raises(places.RankError):
        collective_perf.sizes(1024, 8, 2)
    assert collective_perf.sizes(8, 100, 1) == [8]


def test_sizes_that_come_out_alike_are_measured_once():
    """8, 16 and 32 bytes of an all_gather of 8 ranks are one float each, and would pass for three repeats."""
    assert collective_perf.counts([8, 16, 32, 64, 128], 4 * 8) == [1, 2, 4]
    assert collective_perf.counts([8, 16, 32], 4) == [2, 4, 8]


def test_every_collective_of_nccl_tests_has_its_torch_program():
    assert set(collectives.ALL) == set(COLLECTIVES)


def test_ranks_that_are_no_hypercube_are_refused():
    done = warm_python.run(
        [sys.executable, "-m", "clusterctl.workloads", "collective", "hypercube"],
        {"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "3"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 4
    assert "a hypercube needs 2, 4, 8, ... ranks, not 3" in done.stderr


def test_a_hypercube_of_four(tmp_path):
    """Every rank ends with everybody's part, in their order."""
    program = (
        "import sys, torch, torch.distributed as dist\n"
        "from clusterctl.workloads import collectives\n"
        "rank = int(sys.argv[1])\n"
        f"dist.init_process_group('gloo', init_method='file://{tmp_path}/store', rank=rank, world_size=4)\n"
        "cube = collectives.ALL['hypercube']\n"
        "buffers = collectives.make(cube, 3, torch.float32, torch.device('cpu'))\n"
        "wrong = collectives.count_wrong(cube, buffers)\n"
        "buffers.send.fill_(rank)\n"
        "cube.call(buffers)\n"
        "print(wrong, [int(value) for value in buffers.recv], flush=True)\n"
        "dist.barrier()\n"
    )
    environment = {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    processes = [
        warm_python.start([sys.executable, "-c", program, str(rank)], environment) for rank in range(4)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert outputs == ["0 [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]\n"] * 4


@pytest.mark.parametrize(
    ("cudagraph", "size", "device", "ways"),
    [
        ("0", 8, "cuda", (False,)),
        ("1", 1 << 30, "cuda", (True,)),
        ("auto", 8, "cuda", (False, True)),
        ("auto", 1 << 30, "cuda", (False,)),
        ("auto", 8, "cpu", (False,)),
    ],
)
def test_a_graph_is_tried_where_python_may_be_slower_than_the_message(cudagraph, size, device, ways):
    assert collective_perf.graphs(cudagraph, size, torch.device(device)) == ways


def test_no_graph_is_tried_where_calls_cannot_be_captured():
    assert collective_perf.graphs("auto", 8, torch.device("cuda"), capturable=False) == (False,)


@pytest.mark.parametrize(
    ("backend", "device", "shared", "described", "captured"),
    [
        ("nccl", "cuda", None, {}, True),
        ("nccl", "cpu", None, {}, False),
        ("nccl", "cuda", f"2 ({TIME_SLICES})", {}, False),
        ("gloo", "cuda", None, {}, False),
        ("accl", "cuda", None, {}, False),
        ("ccore", "cuda", None, {"cuda_path": "kernel", "between_nodes": "one node"}, True),
        ("ccore", "cuda", None, {"cuda_path": "stream", "between_nodes": "one node"}, False),
        ("ccore", "cuda", None, {"cuda_path": "kernel", "between_nodes": "GPUs: rings"}, False),
    ],
)
def test_calls_are_captured_where_no_host_takes_part(
    monkeypatch, backend, device, shared, described, captured
):
    monkeypatch.setattr("collective_core.torch.describe", lambda: described)
    assert collective_perf.can_be_captured(backend, torch.device(device), shared) is captured


def test_both_times_of_a_size_are_read_as_the_program_prints_them(monkeypatch):
    arguments = collective_perf.parse_arguments(["all_reduce", "-G", "auto"])
    place = collective_perf.RankPlace(7, "gpu1", 0, "cuda:0 NVIDIA H200")
    rows = [
        collective_perf.row(arguments, collectives.ALL["all_reduce"], 1024, 256, (6.74, 0.15, 0.15), 0),
        collective_perf.calls_line(1024, (47.1, 6.7449)),
        collective_perf.row(arguments, collectives.ALL["all_reduce"], 1 << 30, 1 << 28, (3000.0, 3, 3), 0),
    ]
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    head = collective_perf.header(arguments, [place])
    first, last = perf_output.parse("\n".join([head, *rows, "# Out of bounds values : 0 OK"])).rows
    assert (first.in_place.time_us, first.calls_us, first.graph_us) == (6.74, 47.1, 6.74)
    assert (last.calls_us, last.graph_us) == (None, None)
    zero = perf_output.parse("\n".join([head, rows[0], collective_perf.calls_line(1024, (0, 1))])).rows
    assert zero[0].calls_us is None
    slow = collective_perf.row(arguments, collectives.ALL["all_reduce"], 1024, 256, (9e14, 9e11, 9e11), 0)
    endless = perf_output.parse("\n".join([head, slow, collective_perf.calls_line(1024, (0.01, 0.01))])).rows
    assert (endless[0].in_place.time_us, endless[0].calls_us) == (9e14, None)


@pytest.mark.parametrize(
    ("times_us", "size", "counts"),
    [
        ([30.0], 8, 30.0),
        ([30.0, 6.0], 8, 6.0),
        ([6.0, 6.5], 8, 6.0),
        ([39.0, 37.0], 4 << 20, 39.0),
        ([39.0, 32.0], 4 << 20, 32.0),
        ([3000.0], 1 << 30, 3000.0),
    ],
)
def test_large_messages_count_as_started_one_by_one_unless_python_was_too_slow(times_us, size, counts):
    assert collective_perf.fair_us(times_us, size) == counts


class _Clock:
    """An event of a GPU; the third one, the begin of the second replay, is followed by a disturbed replay."""

    durations_ms = (0.14, 0.85, 0.15)
    made = 0

    def __init__(self, enable_timing):
        self.replay = _Clock.made // 2
        _Clock.made += 1

    def record(self):
        pass

    def elapsed_time(self, end):
        return self.durations_ms[end.replay]


def test_one_disturbed_replay_of_a_graph_is_no_result(alone, monkeypatch):
    replayed = []

    class Graph:
        def replay(self):
            replayed.append(1)

    monkeypatch.setattr(_Clock, "made", 0)
    for name, fake in (
        ("Event", _Clock),
        ("CUDAGraph", Graph),
        ("graph", contextlib.nullcontext),
        ("synchronize", lambda device: None),
    ):
        monkeypatch.setattr(torch.cuda, name, fake)
    calls = []
    us = collective_perf.time_calls(lambda: calls.append(1), 20, torch.device("cuda", 0), graph=True)
    assert us == pytest.approx(7.5)
    # The first replay only warms up.
    assert (len(calls), len(replayed)) == (20, 4)
