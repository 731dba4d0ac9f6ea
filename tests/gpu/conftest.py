"""Fixtures for ranks on GPUs. ``make gpu``, ``make gpu-all`` and gpu-smoke.yml run these tests on an NVIDIA GPU."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from mps_server import NOT_STARTED, mps_server

PROGRAMS = Path(__file__).parent / "programs"
# Fifty products at a time: a process that waits for each one loses its time slice of the GPU.
COMPETE = """
import torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
print("started", flush=True)
while True:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests under MPS, since a GPU serves one MPS server at a time."""
    for item in items:
        if "mps" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("mps"))


@pytest.fixture(scope="session", autouse=True)
def _gpu() -> None:
    if not torch.cuda.is_available():
        pytest.fail("tests/gpu needs an NVIDIA GPU, and torch finds none on this machine")


@pytest.fixture
def mps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run an MPS server for the ranks of a test. Skip the test where MPS is not installed."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        pytest.skip("nvidia-cuda-mps-control is not installed")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    with mps_server() as variables:
        assert variables is not None, NOT_STARTED
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def start_competitor() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start a process that computes on the same GPU without a pause; it ends with the test."""
    with ExitStack() as ending:

        def start() -> subprocess.Popen[str]:
            process = ending.enter_context(
                subprocess.Popen((sys.executable, "-c", COMPETE), stdout=subprocess.PIPE, text=True)
            )
            ending.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline() == "started\n"
            return process

        yield start


@pytest.fixture
def world() -> Callable[..., list[str]]:
    """Run a program as ranks on device 0; return each rank's output. A rank that fails fails the test.

    `each` has variables of each rank, such as another LOCAL_RANK, and `ends` exit statuses other than 0, by rank.
    """

    def run(
        name: str,
        *arguments: str,
        size: int = 2,
        timeout_s: float = 120.0,
        each: Sequence[Mapping[str, str]] = (),
        ends: Mapping[int, int] | None = None,
    ) -> list[str]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
        shared["CCORE_JOB_SECRET"] = f"gpu tests {port}"
        ranks = [
            subprocess.Popen(
                (sys.executable, str(PROGRAMS / name), *arguments),
                env={**shared, "RANK": str(rank), "LOCAL_RANK": "0", **(each[rank] if each else {})},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )
            for rank in range(size)
        ]  # fmt: skip
        try:
            # Read all ranks at the same time: a rank blocks when its pipe is full.
            with ThreadPoolExecutor(size) as readers:
                outputs = [
                    text for text, _ in readers.map(lambda rank: rank.communicate(timeout=timeout_s), ranks)
                ]
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    os.killpg(rank.pid, signal.SIGKILL)
                    rank.wait()
        for number, (rank, output) in enumerate(zip(ranks, outputs, strict=True)):
            expect = (ends or {}).get(number, 0)
            assert rank.returncode == expect, f"rank {number} ended with {rank.returncode}:\n{output[-4000:]}"
        return outputs

    return run
