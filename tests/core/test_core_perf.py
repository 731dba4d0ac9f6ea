"""all_reduce_perf as people run it: alone, under mpirun, by hand; and as people get it wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from listening import listening_ports, wait_until

# Read by the titles, as nccl-tests' own users do; twice: out of place and in place.
ROW = re.compile(
    r"^\s*(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>\S+)\s+(?P<redop>\S+)\s+(?P<root>-1)"
    r"\s+(?P<time>[\d.]+)\s+[\d.]+\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\d+|N/A)"
    r"\s+(?P<time_in>[\d.]+)\s+[\d.]+\s+[\d.]+\s+(?P<wrong_in>\d+|N/A)$",
    re.MULTILINE,
)
TITLE = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
    "     time   algbw   busbw  #wrong "
)


@pytest.fixture
def mpirun(tier_unavailable: Callable[[str], None]) -> str:
    found = shutil.which("mpirun")
    if found is None:
        tier_unavailable("mpirun is missing: apt-get install openmpi-bin")
    return str(found)


@pytest.fixture
def bare() -> dict[str, str]:
    """No rank, no rendezvous: what a shell has."""
    drop = ("CCORE_", "OMPI_", "PMI", "SLURM_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def run(
    command: tuple[str, ...], environment: Mapping[str, str], timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def rank_lines(output: str) -> list[str]:
    return re.findall(
        r"^#  Rank +(\d+) Group +0 Pid +\d+ on +\S+ device +\d+ \[[^\]]+\] .+$", output, re.MULTILINE
    )


def test_alone(all_reduce_perf: Path, bare: dict[str, str]) -> None:
    done = run((str(all_reduce_perf), "-b", "8", "-e", "4K", "-f", "2", "-n", "3"), bare)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "# Collective test starting: all_reduce_perf"
    assert lines[2] == (
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 3 agg iters: 1 "
        "validation: 1 graph: 0 unalign: 0"
    )
    assert TITLE in lines
    rows = list(ROW.finditer(done.stdout))
    assert [int(row["size"]) for row in rows] == [8 << i for i in range(10)]
    assert [int(row["count"]) for row in rows] == [2 << i for i in range(10)]
    assert rank_lines(done.stdout) == ["0"]
    assert "# Out of bounds values : 0 OK" in lines
    assert any(re.fullmatch(r"# Avg bus bandwidth    : \S+ ", line) for line in lines)
    assert "# Collective test concluded: all_reduce_perf" in lines


@pytest.mark.parametrize("size", [2, 4])
def test_under_mpirun(all_reduce_perf: Path, mpirun: str, bare: dict[str, str], size: int) -> None:
    command = (
        mpirun, "--allow-run-as-root", "--oversubscribe", "-np", str(size), str(all_reduce_perf),
        "-b", "8", "-e", "2M", "-f", "8", "-n", "4", "-d", "all", "-o", "all",
    )  # fmt: skip
    done = run(command, bare)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(rank_lines(done.stdout)) == [str(rank) for rank in range(size)]
    rows = list(ROW.finditer(done.stdout))
    assert len(rows) == 12 * 5 * 7
    assert {row["wrong"] for row in rows} | {row["wrong_in"] for row in rows} == {"0"}
    assert "# Out of bounds values : 0 OK" in done.stdout
    assert "0-1 shm" in done.stdout
    assert done.stdout.count("Collective test starting") == 1
    largest = next(row for row in rows if row["type"] == "float" and int(row["size"]) == 2 << 20)
    algbw = (2 << 20) / float(largest["time"]) / 1000
    assert float(largest["busbw"]) == pytest.approx(algbw * 2 * (size - 1) / size, rel=0.02, abs=0.01)


def test_without_check_and_with_steps(all_reduce_perf: Path, bare: dict[str, str]) -> None:
    flags = (
        "-b",
        "1K",
        "-e",
        "3K",
        "-i",
        "1024",
        "-c",
        "0",
        "-w",
        "0",
        "-n",
        "1",
        "-d",
        "double",
        "-o",
        "max",
    )
    done = run((str(all_reduce_perf), *flags), bare)
    rows = list(ROW.finditer(done.stdout))
    assert [(int(row["size"]), row["type"], row["redop"], row["wrong"]) for row in rows] == [
        (size, "double", "max", "N/A") for size in (1024, 2048, 3072)
    ]


def emulated_nodes(rank: int) -> Mapping[str, str]:
    return {"CCORE_NODE_ID": f"n{rank // 2}", "CCORE_SOCKET_ADDR": f"127.0.0.{2 + rank // 2}"}


def test_the_header_says_why_rdma_is_not_used(all_reduce_perf: Path, ranks: object) -> None:
    def of_rank(rank: int) -> Mapping[str, str]:
        return {**emulated_nodes(rank), "CCORE_NET": "auto", "CCORE_RDMA_DEVICE": "none0"}

    ranks.start((str(all_reduce_perf), "-b", "1K", "-e", "1K", "-n", "1"), 4, of_rank)  # type: ignore[attr-defined]
    ended = ranks.finish()  # type: ignore[attr-defined]
    assert [one.returncode for one in ended] == [0] * 4, ended
    assert "\n# Transport: tcp (RDMA is not used: " in ended[0].output
    # Of four ranks one says so, without CCORE_DEBUG.
    lines = [
        one.output.count("TCP between nodes instead of RDMA, which cannot be used by rank 0") for one in ended
    ]
    assert lines == [1, 0, 0, 0], ended


def test_by_hand_on_two_emulated_nodes(all_reduce_perf: Path, ranks: object) -> None:
    ranks.start((str(all_reduce_perf), "-b", "1M", "-e", "1M", "-n", "3"), 4, emulated_nodes)  # type: ignore[attr-defined]
    ended = ranks.finish()  # type: ignore[attr-defined]
    assert [one.returncode for one in ended] == [0] * 4, ended
    assert "# Transport: 0-1 shm, 0-2 tcp, 0-3 tcp" in ended[0].output
    assert "# Out of bounds values : 0 OK" in ended[0].output
    assert ended[1].output == ""


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("-G", "20"), "-G 20: only 0 is supported"),
        (("-g", "4"), "-g 4: only 1 is supported"),
        (("-b", "many"), "-b many: expected bytes"),
        (("-b", "8", "-e", "4"), "-e is smaller than -b"),
        (("-d", "complex"), "-d complex: expected one of all, int8"),
        (("--no-such-flag", "1"), "unknown option"),
        (("-n",), "a value is missing"),
        (("extra",), "extra: unexpected argument"),
    ],
)
def test_wrong_flags(all_reduce_perf: Path, bare: dict[str, str], flags: tuple[str, ...], says: str) -> None:
    done = run((str(all_reduce_perf), *flags), bare)
    assert done.returncode == 2
    assert says in done.stderr
    assert "usage:" in done.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"RANK": "0"}, "WORLD_SIZE is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 is not below WORLD_SIZE=2"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK=x: expected a whole number"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "set CCORE_ROOT_ADDR"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "CCORE_ROOT_ADDR": "127.0.0.1"}, "set CCORE_JOB_SECRET"),
    ],
)
def test_a_launch_that_cannot_work(
    all_reduce_perf: Path, bare: dict[str, str], given: dict[str, str], says: str
) -> None:
    done = run((str(all_reduce_perf),), {**bare, **given})
    assert done.returncode == 1
    assert says in done.stderr
    assert "all_reduce_perf: rank" in done.stderr


def test_a_second_rank_0_is_refused(all_reduce_perf: Path, ranks: Any, free_port: int) -> None:
    command = (str(all_reduce_perf), "-b", "8", "-e", "8", "-n", "1")
    given = {"RANK": "0", "WORLD_SIZE": "2"}
    ranks.start(command, 1, lambda _: given)
    (first,) = ranks.processes
    wait_until(lambda: free_port in listening_ports([first.pid]), "the first rank 0 does not listen")
    ranks.start(command, 1, lambda _: given)
    second = ranks.processes[1]
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 1 and "a second rank 0" in said, said
    assert first.poll() is None, "the first rank 0 waits no more"


def test_a_missing_rank_is_named(all_reduce_perf: Path, environment: dict[str, str]) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "3", "CCORE_INIT_TIMEOUT_S": "2"}
    done = run((str(all_reduce_perf),), {**environment, **given})
    assert done.returncode == 1
    assert "rank 1, 2 of 3" in done.stderr


def test_the_deadline_of_the_initialisation_by_all_its_names(
    all_reduce_perf: Path, bare: dict[str, str]
) -> None:
    """A rank whose rank 0 never comes ends by it, and not after two minutes."""
    given = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "HOROVOD_GLOO_TIMEOUT_SECONDS": "0.5"}
    done = run((str(all_reduce_perf),), {**bare, **given}, timeout_s=60)
    assert "rank 0 did not come in time" in done.stderr, done.stderr


def test_a_killed_rank_ends_the_job(all_reduce_perf: Path, ranks: object) -> None:
    command = (str(all_reduce_perf), "-b", "1M", "-e", "1M", "-n", "1000000", "-c", "0")
    ranks.start(command, 3)  # type: ignore[attr-defined]
    processes = ranks.processes  # type: ignore[attr-defined]
    first = processes[0].stdout
    for line in first:
        if "out-of-place" in line:  # the header is out, so the ranks are at work
            break
    processes[2].kill()
    ended = ranks.finish(60)  # type: ignore[attr-defined]
    for rank in (0, 1):
        assert ended[rank].returncode == 1
        assert f"all_reduce_perf: rank {rank} of 3 on" in ended[rank].output
        assert "rank 2 (host" in ended[rank].output
