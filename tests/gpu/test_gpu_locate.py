"""The windows in which ``locate`` measures every rank alone, beside a process that competes in one of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from clusterctl.benchmarks.locate import low_windows
from clusterctl.workloads.locate.alone import WINDOWS, Window
from clusterctl.workloads.records import MARK

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_alone]

RANKS = 3


def test_a_process_that_competes_in_the_second_window_marks_that_window_only(
    start_competitor: Callable[[], subprocess.Popen[str]],
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS),
        "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "CCORE_JOB_SECRET": f"gpu tests {port}",
    }  # fmt: skip
    nodes = ",".join(map(str, range(RANKS)))
    command = (sys.executable, "-m", "clusterctl.workloads", "locate", "--backend", "ccore", "--nodes", nodes)
    with ExitStack() as ending:
        competitor = start_competitor()
        competitor.send_signal(signal.SIGSTOP)
        ranks = [_started(command, {**shared, "RANK": str(rank)}, ending) for rank in range(RANKS)]
        windows: list[Window] = []
        for number in range(WINDOWS):
            windows.append({})
            for rank, process in enumerate(ranks):
                windows[-1] |= {(measure, rank): rate for measure, rate in _next_window(process).items()}
            competitor.send_signal(signal.SIGCONT if number == 0 else signal.SIGSTOP)
    found = [one for one in low_windows(windows) if one.measure == "gemm"]
    assert [(one.window, one.ranks) for one in found] == [(2, tuple(range(RANKS)))], [
        sorted(window.items()) for window in windows
    ]


def _next_window(process: subprocess.Popen[str]) -> dict[str, float]:
    """Return the rates of a rank's next window."""
    assert process.stdout is not None
    for line in process.stdout:
        record = json.loads(line.partition(MARK)[2]) if line.startswith(MARK) else {}
        if record.get("kind") == "locate-window":
            rates: dict[str, float] = record["rates"]
            return rates
    raise AssertionError("a rank ended before its last window")


def _started(command: tuple[str, ...], env: dict[str, str], ending: ExitStack) -> subprocess.Popen[str]:
    process = ending.enter_context(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    ending.callback(process.kill)
    return process
