"""The perf programs of collective_core across two lab nodes, as users start them: mpirun over real sshd.

all_reduce runs the whole sweep, 8 bytes to 64 MiB. So that a test run stays short, its siblings go to 1 MiB;
``CCORE_TEST_PERF_END=64M pytest tests/lab/test_core_perf_docker.py`` is the whole sweep for all of them (some minutes).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from perf_rows import rows_of

REPOSITORY = Path(__file__).resolve().parents[2]
SIBLINGS = (
    "all_gather_perf", "all_gatherv_perf", "alltoall_perf", "alltoallv_perf", "broadcast_perf", "gather_perf",
    "hypercube_perf", "reduce_perf", "reduce_scatter_perf", "scatter_perf", "sendrecv_perf",
)  # fmt: skip
NOT_IN_PLACE = {"alltoall_perf", "alltoallv_perf", "sendrecv_perf"}
END = os.environ.get("CCORE_TEST_PERF_END", "1M")
SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(text: str) -> int:
    return int(text.rstrip("KMG")) * SUFFIXES.get(text[-1], 1)


def perf_program(name: str, tier_unavailable: Callable[[str], None]) -> str:
    """The installed program, or that of the wheel's build: both lie in directories that the nodes have too."""
    code = f"import collective_core; print(collective_core.perf_binary({name!r}))"
    env = {key: value for key, value in os.environ.items() if key != "CCORE_LIBRARY"}
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=60, env=env, check=False
    )
    built = REPOSITORY / "build" / "wheel" / name
    if done.returncode != 0 and (os.environ.get("CI") == "true" or not built.is_file()):
        tier_unavailable(f"{name} is not installed: make install")
    return done.stdout.strip() if done.returncode == 0 else str(built)


@pytest.fixture
def sweep(docker_lab: Any, tier_unavailable: Callable[[str], None]) -> Callable[[str, str], str]:
    """Run a program on four ranks of two nodes with checked results; return what it printed."""

    def run(name: str, end: str) -> str:
        first = docker_lab.lab.node("node1")
        options = (
            "--allow-run-as-root", "-np", "4", "-H", "node1:2,node2:2", "-bind-to", "none",
            "-mca", "oob_tcp_if_include", first.fabric_interface, "-x", f"CCORE_ROOT_ADDR={first.fabric_address}",
            "-x", "CCORE_INIT_TIMEOUT_S=60", "-x", "CCORE_TIMEOUT_S=120",
        )  # fmt: skip
        words = (
            "mpirun",
            *options,
            perf_program(name, tier_unavailable),
            *f"-b 8 -e {end} -f 2 -c 1".split(),
        )
        return str(docker_lab.output("node1", " ".join(words), timeout_s=900))

    return run


def expect_right_results(name: str, output: str, end: str) -> None:
    assert f"# Collective test starting: {name}" in output
    # Two ranks on each node, and memory between them, not a network; the rest is TCP.
    on = dict(re.findall(r"^#  Rank +(\d+) Group +0 Pid +\d+ on +(\S+) device", output, re.MULTILINE))
    assert on == {"0": "node1", "1": "node1", "2": "node2", "3": "node2"}
    assert "# Transport: 0-1 shm, 0-2 tcp, 0-3 tcp" in output
    rows = rows_of(output)
    # The larger buffer of some holds a block of whole elements per rank, so they have no row of the least size.
    doublings = (bytes_of(end) // 8).bit_length()
    assert len(rows) == doublings
    assert int(rows[-1]["size"]) == bytes_of(end)
    assert {row["wrong"] for row in rows} == {"0"}
    assert {row["wrong_in"] for row in rows} == {"N/A" if name in NOT_IN_PLACE else "0"}
    assert "# Out of bounds values : 0 OK" in output
    assert f"# Collective test concluded: {name}" in output


def test_all_reduce_from_8_bytes_to_64_mebibytes(sweep: Callable[[str, str], str]) -> None:
    expect_right_results("all_reduce_perf", sweep("all_reduce_perf", "64M"), "64M")


@pytest.mark.parametrize("name", SIBLINGS)
def test_siblings(sweep: Callable[[str, str], str], name: str) -> None:
    expect_right_results(name, sweep(name, END), END)
