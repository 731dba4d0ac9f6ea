"""NCCL's log: one log per file in nccl_logs/, with what it says beside it."""

import dataclasses
import itertools
import json
import random
from pathlib import Path

import pytest
from nccl_log_files import log_of

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.perf_output import without_log
from clusterctl.trust import nccl_log, nccl_transport
from clusterctl.trust.nccl_log import LogReader
from clusterctl.trust.nccl_log_model import ProcessLog

LOGS = sorted((Path(__file__).parent / "nccl_logs").glob("*.log"))
SOCKET = next(log for log in LOGS if log.name.startswith("socket-"))
_EXPECTED = ("versions", "ranks", "nodes", "networks", "nics", "hca_gdr", "mechanisms", "settings", "nvls",
             "no_rdma_device", "connected", "warnings", "distances")  # fmt: skip


def told(process: ProcessLog) -> dict:
    """What a process says as plain values, without what is as if nothing was said."""
    silent = ProcessLog(None, "", 0)
    said = {"host": process.host, "pid": process.pid}
    for name in _EXPECTED:
        value = getattr(process, name)
        if value != getattr(silent, name):
            said[name] = value
    if process.distances:
        said["distances"] = [dataclasses.astuple(entry) for entry in process.distances]
    channels = {}
    for (direction, way), count in process.channels.items():
        key = f"{direction} {way.label}"
        channels[key] = channels.get(key, 0) + count
    return json.loads(json.dumps({**said, "channels": channels}))


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_what_a_log_says(log):
    expected = json.loads(log.with_suffix(".json").read_text())
    found = log_of(log)
    said = [told(process) for process in found.processes]
    if log.name.startswith("ib-gdr-2.18.6"):
        # Up to 2.20 rank 0 prints the version without a prefix, so that no process owns it; the rings of one.
        for process in said:
            process.pop("connected", None)
            process.pop("distances", None)
    if log.name.startswith("rdma-plugin"):
        said[0].pop("distances")
    assert said == expected["processes"]
    assert [list(dataclasses.astuple(choice)) for choice in found.choices] == expected["choices"]


def test_a_log_may_arrive_in_pieces_of_any_size():
    data = SOCKET.read_bytes()
    whole = log_of(SOCKET)
    for size in (1, 7, 100, 4096):
        reader = LogReader()
        reader.read(data[at : at + size] for at in range(0, len(data), size))
        assert reader.result() == whole


def test_streams_of_ranks_are_kept_apart_by_their_rank():
    reader = LogReader()
    text = SOCKET.read_text()
    reader.read_text("".join(line for line in text.splitlines(True) if ":897:" in line), source=0)
    reader.read_text("".join(line for line in text.splitlines(True) if ":900:" in line), source=3)
    assert [(p.source, p.ranks) for p in reader.result().processes] == [(0, (0,)), (3, (3,))]


def test_a_log_without_ends_of_lines_neither_grows_nor_raises():
    reader = LogReader()
    reader.read(b"x" * 1000 for _ in range(500))
    assert reader.result().processes == ()


def test_noise_is_no_log():
    random.seed(7)
    for _ in range(5):
        reader = LogReader()
        reader.read([bytes(random.choice(b" []:0n\nNCLIFO>") for _ in range(4000))])
        reader.result()
    assert nccl_transport.parse("P2") is None
    assert nccl_transport.parse("") is None


def test_ways_that_no_log_here_has():
    way = nccl_transport.parse("NET/AWS Libfabric/7/GDRDMA/Shared")
    assert (way.network, way.device, way.gdr, way.socket) == ("AWS Libfabric", 7, True, False)
    assert nccl_transport.parse("NET/Socket/1/Shared").socket
    assert nccl_transport.parse("SHM").label == "SHM/direct"


def test_rows_that_the_log_cut_in_two_are_whole_again():
    # NCCL 2.22 and newer connect when an algorithm is first used: after the left part of the row was printed.
    recorded = (
        Path(__file__).parents[1] / "benchmarks" / "cases" / "h200-x4-all_reduce_perf-mpirun-np4-g1.txt"
    ).read_text()
    header, first, rest = recorded.partition("        1024           256     float     sum      -1")
    assert first, "the recorded output begins with that row"
    entry = "n1:5:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    stamped = "[2026-01-05 10:00:03] n1:5:9 [0] misc/x.cc:7 NCCL WARN NET/IB : something\n"
    cut = entry + header + first + entry + entry + rest[:80] + stamped + rest[80:]
    assert without_log(cut) == recorded
    assert perf_output.parse(cut).rows == perf_output.parse(recorded).rows


def test_memory_of_prefixes_is_bounded():
    reader = LogReader()
    reader.read(
        f"[2026-01-05 10:00:{second}] n1:5:5 [0] NCCL INFO Using network IB\n".encode()
        for second in range(3 * nccl_log._REMEMBERED)
    )
    assert len(reader._origins) <= nccl_log._REMEMBERED
    assert len(reader.result().processes) == 1


def test_lines_that_alternate_between_processes_are_each_its_own():
    found = log_of(SOCKET).processes
    lines = [line for line in SOCKET.read_bytes().splitlines(True) if not line.startswith(b"#")]
    by_process = [[line for line in lines if f":{process.pid}:".encode() in line] for process in found]
    assert len(by_process) > 1 and all(by_process)
    reader = LogReader()
    reader.read(line for row in itertools.zip_longest(*by_process, fillvalue=b"") for line in row)
    assert reader.result().processes == found


def test_one_line_of_two_processes_changes_each_by_what_it_said_before():
    line = "a:%d:1 [0] NCCL INFO NET/IB : GPU Direct RDMA %s for HCA 0 'mlx5_0'\n"
    reader = LogReader()
    reader.read_text(line % (1, "Disabled") + line % (2, "Enabled") + line % (1, "Enabled"))
    assert [process.hca_gdr for process in reader.result().processes] == [{"mlx5_0": False}, {"mlx5_0": True}]
