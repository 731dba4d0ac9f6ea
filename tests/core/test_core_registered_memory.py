"""Registered memory between processes: the same results, reached where ranks share a node, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[..., Any]


@pytest.mark.parametrize(("size", "nodes"), [(2, 1), (3, 1), (4, 1), (4, 2)])
def test_results_are_those_of_ordinary_memory(program: Program, size: int, nodes: int) -> None:
    pytest.importorskip("numpy")
    ended = program(
        "registered_memory.py", size=size, per_rank=lambda rank: {"CCORE_NODE_ID": f"node{rank % nodes}"}
    ).finish()
    assert [one.returncode for one in ended] == [0] * size, ended
    direct = nodes == 1
    for rank, one in enumerate(ended):
        report = json.loads(one.output.splitlines()[-1])
        assert report["direct"] is direct
        assert report["same"] == [True] * 15
        assert report["refusal"] == "invalid_argument: bytes is 0"
        elements = 2 * 100_003 + rank
        assert report["registered"] == [11, elements * (8 + 4 + 2 + 1 + 8) + 200_000]
        assert report["deregistered"][0] == 10
        # Two of its own, and two of each other rank; then those of one that its owner forgot, until the end.
        others = size - 1 if direct else 0
        assert report["mappings"] == [2 * (1 + others), 0, 1 + others, 0]


def test_what_it_is_made_of_can_never_be_run(environment: dict[str, str]) -> None:
    """Linux 6.3 to 6.5 with vm.memfd_noexec=2 makes no other such files."""
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 3):
        pytest.skip("Linux 6.3 brought it")
    code = """
import os
from collective_core.memory import allocate
memory = allocate(1)
for number in os.listdir("/proc/self/fd"):
    path = f"/proc/self/fd/{number}"
    if os.path.islink(path) and os.readlink(path).startswith("/memfd:collective_core"):
        print(oct(os.stat(path).st_mode & 0o111))
"""
    done = subprocess.run(
        (sys.executable, "-c", code), env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "0o0\n", done.stdout + done.stderr


def test_the_perf_program_registers_its_buffers(
    all_reduce_perf: Path, environment: dict[str, str], ranks: Any
) -> None:
    ranks.start((str(all_reduce_perf), "-b", "64K", "-e", "8M", "-f", "4", "-n", "2", "-R", "1"), 2)
    first, second = ranks.finish()
    assert (first.returncode, second.returncode) == (0, 0), first.output + second.output
    assert "# Out of bounds values : 0 OK" in first.output
    done = subprocess.run(
        (str(all_reduce_perf), "-R", "2"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and "-R 2: expected a number from 0 to 1" in done.stderr
