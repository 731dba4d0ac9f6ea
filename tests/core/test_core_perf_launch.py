"""The perf programs as they are started without MPI: alone, and under torchrun, on one node and on two."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from perf_rows import rows_of

PROGRAMS = (
    "all_reduce_perf", "all_gather_perf", "alltoall_perf", "broadcast_perf", "gather_perf", "hypercube_perf",
    "reduce_perf", "reduce_scatter_perf", "scatter_perf", "sendrecv_perf",
)  # fmt: skip
# Beside a marker, through slots, and by chunks.
SWEEP = ("-b", "64", "-e", "1M", "-f", "128", "-n", "2", "-c", "1")
SIZES = (64, 8 << 10, 1 << 20)


@pytest.fixture
def bare() -> dict[str, str]:
    """No rank, no rendezvous: what a shell has."""
    drop = (
        "CCORE_", "OMPI_", "PMI", "SLURM_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "TORCHELASTIC_",
    )  # fmt: skip
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def start(command: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=150)
    finally:
        process.kill()
    assert process.returncode == 0, output
    return output


def expect_right(output: str, name: str, ranks: int) -> None:
    """What one program printed, with that many ranks."""
    assert f"# Collective test concluded: {name}" in output
    assert "# Out of bounds values : 0 OK" in output
    seen = re.findall(r"^#  Rank +(\d+) Group ", output, re.MULTILINE)
    assert sorted(map(int, seen)) == list(range(ranks))
    rows = rows_of(output)
    assert [int(row["size"]) for row in rows] == list(SIZES)
    assert {row["wrong"] for row in rows} == {"0"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_alone(perf: Callable[[str], Path], bare: dict[str, str], name: str) -> None:
    expect_right(finish(start((str(perf(name)), *SWEEP), bare)), name, ranks=1)


@pytest.mark.parametrize(
    ("names", "nodes"), [(PROGRAMS, 1), (PROGRAMS[:1], 2)], ids=["one-node", "two-nodes"]
)
def test_under_torchrun(
    perf: Callable[[str], Path], bare: dict[str, str], free_port: int, names: tuple[str, ...], nodes: int
) -> None:
    # One torchrun on a node, which takes seconds to start, for all: its ranks run one program after the other.
    one_by_one = 'flags=$1; shift; for program in "$@"; do "$program" $flags || exit 1; done'
    agents = []
    for node in range(nodes):
        torchrun = (
            sys.executable, "-m", "torch.distributed.run", "--nnodes", str(nodes), "--node-rank", str(node),
            "--nproc-per-node", str(2 // nodes), "--master-addr", "127.0.0.1", "--master-port", str(free_port),
            "--no-python",
        )  # fmt: skip
        paths = tuple(str(perf(name)) for name in names)
        # Between nodes ranks meet by a port, which anybody could connect to.
        given = {**bare, "CCORE_JOB_SECRET": f"test job {free_port}", "CCORE_INIT_TIMEOUT_S": "60"}
        agents.append(start((*torchrun, "bash", "-c", one_by_one, "bash", " ".join(SWEEP), *paths), given))
    # Rank 0, which reports, is on the first.
    output, *_ = [finish(agent) for agent in agents]
    parts = re.split(r"(?=^# Collective test starting: )", output, flags=re.MULTILINE)[1:]
    assert len(parts) == len(names), output
    for name, part in zip(names, parts, strict=True):
        assert part.startswith(f"# Collective test starting: {name}\n")
        expect_right(part, name, ranks=2)
