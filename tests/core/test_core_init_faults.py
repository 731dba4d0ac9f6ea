"""Ranks that die while the others still meet them: told at once, by name, and not when patience ends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from listening import listening_ports, wait_until

MEET = Path(__file__).resolve().parent / "programs" / "meet.py"
PATIENCE_S = 60
"""Of the initialisation. What ends as REMOTE and not as TIMEOUT was not ended by it."""
REMOTE = "collective_core.errors.CollectiveCoreError: remote: "


def expect_told(ended: list[Any], victim: int, text: str) -> None:
    for rank, one in enumerate(ended):
        if rank == victim:
            assert one.returncode == -9
            continue
        assert one.returncode == 1, one.output
        said = one.output.splitlines()[-1]
        assert said.startswith(REMOTE) and text in said, said


def patient(_: int) -> Mapping[str, str]:
    return {"WORLD_SIZE": "4", "CCORE_INIT_TIMEOUT_S": str(PATIENCE_S)}


@pytest.fixture(scope="module")
def dying(preload: Callable[[str], Path]) -> Path:
    """A library that, preloaded, kills one rank at one of its connections."""
    return preload("die_at_connect")


# All know of each other by then: it dies before it connects to rank 0, and to the last rank below it.
@pytest.mark.parametrize(("victim", "connection"), [(1, 2), (2, 2), (2, 3), (3, 4)])
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_rank_dies_as_it_connects(
    program: Any, dying: Path, victim: int, connection: int, transport: str
) -> None:
    def per_rank(rank: int) -> Mapping[str, str]:
        fate = {"LD_PRELOAD": str(dying), "DIE_RANK": str(victim), "DIE_AT": str(connection)}
        return {**patient(rank), **fate, "CCORE_TRANSPORT": transport}

    ended = program("meet.py", "environment", size=4, per_rank=per_rank).finish()
    expect_told(ended, victim, f"rank {victim} (from 127.0.0.1) died during initialisation")


@pytest.mark.parametrize(
    ("victim", "text"),
    [
        (0, "the rendezvous of rank 0 closed the connection"),
        (2, "rank 2 (from 127.0.0.1) died during initialisation"),
    ],
)
def test_a_rank_dies_while_all_wait_for_another(program: Any, victim: int, text: str) -> None:
    job = program("meet.py", "environment", size=3, per_rank=patient)
    # The root of the rendezvous listens, and each rank that has met it for the others.
    wait_until(lambda: len(listening_ports(one.pid for one in job.processes)) == 4, "four ports")
    job.processes[victim].kill()
    expect_told(job.finish(), victim, text)


def test_too_few_descriptors_are_the_cause(ranks: Any) -> None:
    """Rank 0 has fewer than connections that are made to it; rank 1 would wait for it to take the next one."""
    limited = ("sh", "-c", 'ulimit -n "$DESCRIPTORS"; exec "$@"', "limited")
    ranks.start(
        (*limited, sys.executable, str(MEET), "environment"), 2,
        lambda rank: {
            **patient(rank), "WORLD_SIZE": "2", "CCORE_TRANSPORT": "tcp", "CCORE_TCP_STREAMS": "16",
            "DESCRIPTORS": "256" if rank else "16",
        },
    )  # fmt: skip
    for rank, one in enumerate(ranks.finish()):
        assert one.returncode == 1, one.output
        said = one.output.splitlines()[-1]
        teller = "rank 0: " if rank else ""
        assert said.startswith(f"{REMOTE.replace('remote', 'system')}{teller}accept: Too many open files"), (
            said
        )


@pytest.mark.parametrize("other", [0, 1])
def test_ranks_of_two_builds_are_named(program: Any, library: Path, tmp_path: Path, other: int) -> None:
    """Builds of one version may exchange other things: the second library has another number of its sources."""
    root = Path(__file__).resolve().parents[2] / "collective_core"
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert cmake, "cmake is missing: pip install --group dev"
    written = tmp_path / "source_digest.cc"
    script = root / "scripts" / "source_digest.cmake"
    subprocess.run(
        (cmake, f"-DROOT={root}", f"-DTARGET={written}", "-P", str(script)), check=True, timeout=60
    )
    text = re.search(r"0x([0-9a-f]{16});", written.read_text())
    assert text
    digest = int(text[1], 16).to_bytes(8, "little")
    compiled = library.read_bytes()
    assert compiled.count(digest) == 1, f"{library} was built of other sources than {root}"
    forged = tmp_path / "lib" / library.name
    forged.parent.mkdir()
    forged.write_bytes(compiled.replace(digest, bytes(8)))

    def per_rank(rank: int) -> Mapping[str, str]:
        return {**patient(rank), "WORLD_SIZE": "2"} | (
            {"CCORE_LIBRARY": str(forged)} if rank == other else {}
        )

    for rank, one in enumerate(program("meet.py", "environment", size=2, per_rank=per_rank).finish()):
        here, there = ("0" * 16, text[1]) if rank == other else (text[1], "0" * 16)
        builds = (
            f"0.1.0 of sources {there}, this one is 0.1.0 of sources {here}; install one build on all nodes"
        )
        assert one.returncode == 1, one.output
        said = one.output.splitlines()[-1]
        assert f"rank {1 - rank} runs another build of collective_core: {builds}" in said, said
