"""How ranks find each other from Python: real launchers, a torch store, MPI, and environments that make no sense."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from collective_core.communicator import Launch, launch
from collective_core.interruptible import joined

from collective_core import CollectiveCoreError

PROGRAM = str(Path(__file__).resolve().parent / "programs" / "meet.py")
BY_LAUNCHER = ("CCORE_ROOT_ADDR", "CCORE_ROOT_PORT", "CCORE_JOB_SECRET", "MASTER_ADDR", "MASTER_PORT")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PMIX_", "OMPI_", "PMI_", "SLURM_", "TORCHELASTIC_")


def bare(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k not in BY_LAUNCHER and not k.startswith(LAUNCHERS)}


def expect_two(command: tuple[str, ...], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, timeout=100, check=False
    )
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    assert said == ["rank 0 of 2: 3", "rank 1 of 2: 3"], done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


@pytest.fixture
def mpirun(tier_unavailable: Callable[[str], None]) -> tuple[str, ...]:
    found = shutil.which("mpirun")
    if found is None:
        tier_unavailable("mpirun is missing: apt-get install openmpi-bin")
    return str(found), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"


def test_under_mpirun(mpirun: tuple[str, ...], environment: dict[str, str]) -> None:
    expect_two((*mpirun, sys.executable, PROGRAM, "environment"), bare(environment))


def test_through_mpi(mpirun: tuple[str, ...], environment: dict[str, str]) -> None:
    expect_two((*mpirun, sys.executable, "-m", "mpi4py", PROGRAM, "mpi"), bare(environment))


def test_under_torchrun(environment: dict[str, str], free_port: int) -> None:
    torchrun = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        f"--master-port={free_port}",
    )
    expect_two((*torchrun, PROGRAM, "environment"), bare(environment))


def sockets_of_meetings() -> set[str]:
    """The names of the sockets at which local ranks meet on this machine."""
    text = Path("/proc/net/unix").read_text()
    return {line.split()[-1] for line in text.splitlines() if "@collective_core-" in line}


def test_ctrl_c_ends_the_waiting_for_other_ranks(environment: dict[str, str]) -> None:
    before = sockets_of_meetings()
    alone = {
        **bare(environment), "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
        "TORCHELASTIC_RUN_ID": f"interrupted {os.getpid()}", "CCORE_INIT_TIMEOUT_S": "600",
    }  # fmt: skip
    with subprocess.Popen(
        (sys.executable, PROGRAM, "environment"), env=alone, stderr=subprocess.PIPE, text=True
    ) as rank:
        try:
            deadline = time.monotonic() + 60
            while sockets_of_meetings() <= before and time.monotonic() < deadline and rank.poll() is None:
                time.sleep(0.01)
            rank.send_signal(signal.SIGINT)
            _, errors = rank.communicate(timeout=60)
        finally:
            rank.kill()
    assert rank.returncode == -signal.SIGINT, errors
    assert errors.splitlines()[-1] == "KeyboardInterrupt", errors


def test_ctrl_c_ends_the_waiting_of_the_constructor(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_root:
        silent_root.settimeout(60)
        given = {
            **bare(environment), "MASTER_PORT": str(silent_root.getsockname()[1]), "CCORE_INIT_TIMEOUT_S": "600",
        }  # fmt: skip
        with subprocess.Popen(
            (sys.executable, PROGRAM, "id"), env=given, stderr=subprocess.PIPE, text=True
        ) as rank:
            try:
                connection, _ = silent_root.accept()
                with connection:
                    rank.send_signal(signal.SIGINT)
                    _, errors = rank.communicate(timeout=60)
            finally:
                rank.kill()
    assert rank.returncode == -signal.SIGINT, errors
    assert errors.splitlines()[-1] == "KeyboardInterrupt", errors


SPLITS = """
import sys, time
from collective_core.communicator import Communicator
with Communicator.from_environment(timeout_s=600) as world:
    world.barrier()
    if world.rank == 1:
        sys.stdin.readline()  # and does not split
    else:
        print("splits", flush=True)
        world.split(0)
"""


def test_ctrl_c_ends_the_waiting_of_a_split(environment: dict[str, str], free_port: int) -> None:
    def start(rank: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (sys.executable, "-c", SPLITS),
            env={
                **bare(environment), "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port),
            },
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    with start(0) as waiting, start(1) as other:
        try:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "splits\n"
            time.sleep(0.5)  # into the split; a signal before it ends the program as well
            waiting.send_signal(signal.SIGINT)
            _, errors = waiting.communicate(timeout=60)
            other.communicate("go on\n", timeout=60)
        finally:
            waiting.kill()
            other.kill()
    assert waiting.returncode == -signal.SIGINT, errors
    assert errors.splitlines()[-1] == "KeyboardInterrupt", errors
    assert other.returncode == 0


def test_what_goes_wrong_on_the_thread_that_waits_reaches_the_caller() -> None:
    def fail(_handle: object) -> int:
        raise ValueError("of the call")

    with pytest.raises(ValueError, match="of the call"):
        joined(fail)


def test_two_jobs_without_a_name_at_once(environment: dict[str, str], ranks: Any) -> None:
    # As torchrun starts them that is given no --rdzv-id.
    unnamed = {**bare(environment), "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
    jobs = [type(ranks)({**unnamed, "MASTER_PORT": port}) for port in ("29501", "29502")]
    try:
        for job in jobs:
            job.start((sys.executable, PROGRAM, "environment"), 2)
        for job in jobs:
            ended = job.finish()
            assert [one.output for one in ended] == ["rank 0 of 2: 3\n", "rank 1 of 2: 3\n"]
    finally:
        for job in jobs:
            job.kill()


def test_the_deadline_of_the_initialisation_counts_for_the_meeting(environment: dict[str, str]) -> None:
    alone = {**bare(environment), "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    for name in ("CCORE_INIT_TIMEOUT_S", "HOROVOD_GLOO_TIMEOUT_SECONDS"):
        given = {key: value for key, value in alone.items() if key != "CCORE_INIT_TIMEOUT_S"} | {name: "0.5"}
        done = subprocess.run(
            (sys.executable, PROGRAM, "environment"), env=given, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert "timeout: these ranks did not come in time: 1" in done.stderr


def test_a_rank_that_has_left_and_comes_again(environment: dict[str, str]) -> None:
    unnamed = {**bare(environment), "LOCAL_WORLD_SIZE": "2"}
    command = (sys.executable, PROGRAM, "environment")
    name = f"collective_core-{os.getuid()}-{fnv1a(f'parent {os.getpid()}')}"
    first = subprocess.Popen(
        command, env={**unnamed, "RANK": "0", "WORLD_SIZE": "2"}, stdout=subprocess.PIPE, text=True
    )
    try:
        while name not in Path("/proc/net/unix").read_text(encoding="utf-8"):
            assert first.poll() is None
            time.sleep(0.01)
        # It comes and goes before rank 0 has looked.
        first.send_signal(signal.SIGSTOP)
        with socket.socket(socket.AF_UNIX) as impatient:
            impatient.connect("\0" + name)
            impatient.sendall(struct.pack("=i", 1))
        first.send_signal(signal.SIGCONT)
        second = subprocess.run(
            command, env={**unnamed, "RANK": "1", "WORLD_SIZE": "2"}, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert second.stdout == "rank 1 of 2: 3\n", second.stderr
        assert first.communicate(timeout=60)[0] == "rank 0 of 2: 3\n"
    finally:
        first.kill()


def test_through_a_store_twice(program: Callable[..., Any]) -> None:
    ended = program("meet.py", "store", size=2).finish()
    assert [one.output for one in ended] == ["rank 0 of 2: 3\n", "rank 1 of 2: 3\n"]


def test_by_a_root_address(program: Callable[..., Any]) -> None:
    ended = program("meet.py", "environment", size=3).finish()
    assert [one.output for one in ended] == [f"rank {rank} of 3: 6\n" for rank in range(3)]


def test_by_the_name_of_rank_0s_host(program: Callable[..., Any], preload: Callable[[str], Path]) -> None:
    """Which stands for an address of the loopback there, and for another one on the other hosts."""
    own_name = {"CCORE_ROOT_ADDR": "gpu01", "LD_PRELOAD": str(preload("own_name"))}
    others = {"CCORE_ROOT_ADDR": "127.0.0.5"}
    ended = program(
        "meet.py", "environment", size=3, per_rank=lambda rank: others if rank == 2 else own_name
    ).finish()
    assert [one.output for one in ended] == [f"rank {rank} of 3: 6\n" for rank in range(3)]


def test_signals_do_not_end_attempts_to_connect(
    program: Callable[..., Any], preload: Callable[[str], Path]
) -> None:
    interrupted = {"LD_PRELOAD": str(preload("slow_connect"))}
    ended = program("meet.py", "environment", size=2, per_rank=lambda _: interrupted).finish()
    assert [one.output for one in ended] == [f"rank {rank} of 2: 3\n" for rank in range(2)]


def test_without_a_launcher(environment: dict[str, str]) -> None:
    done = subprocess.run(
        (sys.executable, PROGRAM, "environment"), env=bare(environment), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.stdout == "rank 0 of 1: 1\n", done.stderr


def test_several_hosts_need_an_address(environment: dict[str, str]) -> None:
    done = subprocess.run(
        (sys.executable, PROGRAM, "environment"),
        env={**bare(environment), "PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "set CCORE_ROOT_ADDR" in done.stderr


def fnv1a(text: str) -> int:
    """Return the hash by which the library names the socket of a host's ranks."""
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def set_launcher(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name in os.environ.keys() - bare(os.environ).keys():
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Launch(0, 1, 1, "none")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": "j"}, Launch(1, 2, 0, "MPICH")),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, Launch(3, 4, 2, "torchrun")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}, Launch(0, 8, 0, "Slurm")),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            Launch(1, 2, 0, "Open MPI"),
        ),
    ],
)
def test_launchers(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: Launch) -> None:
    set_launcher(monkeypatch, variables)
    assert launch() == expected


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "0"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "two"},
        {"RANK": "0", "WORLD_SIZE": "99999999999999999999"},
    ],
)
def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    set_launcher(monkeypatch, variables)
    with pytest.raises(CollectiveCoreError, match=r"RANK|WORLD_SIZE"):
        launch()
