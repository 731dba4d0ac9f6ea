"""The end of an interrupted command on a node: the processes with its mark, and those of the session that it leads."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from listening import wait_until

from clusterctl.launch.processes import end_command_script

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# A process without the mark, in the session of one that has it.
UNMARKED = "env -i sleep 300 & echo $!; exec"
Command = Callable[..., int]


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def command(mark: str) -> Iterator[Command]:
    """Start a command that has the mark, and return the process beside it."""
    started: list[subprocess.Popen[str]] = []

    def start(*account: str) -> int:
        words = " ".join((*account, "env", f"CLUSTERCTL_COMMAND={mark}", "sleep", "300"))
        process = subprocess.Popen(
            ("sh", "-c", f"{UNMARKED} {words}"), start_new_session=True, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        beside = int(process.stdout.readline())
        marked = f"CLUSTERCTL_COMMAND={mark}".encode()
        # The shell prints before it becomes the program that has the mark.
        wait_until(lambda: marked in Path(f"/proc/{process.pid}/environ").read_bytes(), "the mark")
        return beside

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def end(mark: str, *account: str) -> list[bytes]:
    done = subprocess.run(
        (*account, "sh", "-s"),
        input=end_command_script(mark, 1.0),
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def runs(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def test_what_cleared_its_environment_is_ended(mark: str, command: Command) -> None:
    beside = command()
    assert end(mark) == [b"left"] and not runs(beside)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of two accounts")
def test_what_only_root_can_end_is_reported(mark: str, command: Command) -> None:
    """As by ``clusterctl run -- sudo COMMAND``, where the login is not root's."""
    beside = command(*NOBODY)
    assert end(mark, *NOBODY) == [b"left", str(beside).encode()] and runs(beside)
