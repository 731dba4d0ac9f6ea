"""The build of the C++ side with its tests, begun with the session: what needs no C++ is tested meanwhile.

Two processes of one session may want it: the second waits for the first, and finds everything built.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


class NativeBuild:
    """Commands that run one after the other in the background, below the priority of the tests."""

    def __init__(self, folder: Path, commands: Sequence[Sequence[str]]) -> None:
        self.folder = folder
        self._line = " && ".join(shlex.join(command) for command in commands)
        self._output = folder / f"build-{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the commands unless they were started before."""
        if self._process is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # Where the kernel shares the processors out among sessions, a session's own priority is what counts.
        yielding = "{ echo 10 >/proc/self/autogroup; } 2>/dev/null; "
        locked = shlex.join(
            ("flock", str(self.folder / "build.lock"), "nice", "-n", "10", "sh", "-c", self._line)
        )
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                ("sh", "-c", f"{yielding}exec {locked}"),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def finish(self, timeout_s: float) -> None:
        """Wait for the end; AssertionError with the output where it fails or takes longer."""
        self.begin()
        assert self._process is not None
        self._prefer()
        deadline = time.monotonic() + timeout_s
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if status is None:
            self.abandon()
        said = self._output.read_text(errors="replace")
        assert status is not None, f"no end after {timeout_s:.0f} s: {self._line}\n{said}"
        assert status == 0, f"exit {status} from: {self._line}\n{said}"

    def _prefer(self) -> None:
        """Give the build the priority of a test, whichever process began it, as a test now waits for it.

        Only root may.
        """
        lock = str(self.folder / "build.lock").encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if lock in (process / "cmdline").read_bytes().split(b"\0"):
                    os.setpriority(os.PRIO_PGRP, os.getpgid(int(process.name)), 0)
                    (process / "autogroup").write_text("0")

    def abandon(self) -> None:
        """End whatever still runs of it."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(timeout=30)
