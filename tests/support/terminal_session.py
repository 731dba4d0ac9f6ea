"""Drive a real command at a pseudo-terminal, and read the screen as a person sees it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pexpect
import pyte

LIMIT_S = 120.0


class TerminalSession:
    """A command at a terminal of its own; leaving the context ends it. Hangups are ignored, as after ``nohup``."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        columns: int = 100,
        lines: int = 40,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._limit_s = limit_s
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            kept.pop(name, None)
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.process = pexpect.spawn(
            words[0], list(words[1:]), cwd=str(cwd), env={**kept, "TERM": "xterm", **(env or {})},
            dimensions=(lines, columns), timeout=limit_s, ignore_sighup=True,
        )  # fmt: skip

    def __enter__(self) -> TerminalSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.ptyproc.fileobj.closed:
            self.process.ptyproc.terminate(force=True)
        else:
            self.process.close(force=True)

    @property
    def screen(self) -> str:
        """The screen's lines, without what is blank at their ends."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def until(self, pattern: str) -> re.Match[str]:
        """Read until the screen shows the pattern; fail with the screen if it never does."""
        deadline = time.monotonic() + self._limit_s
        while (found := re.search(pattern, self.screen, re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"{pattern!r} was not shown:\n{self.screen}"
            assert self._read(), f"the command ended without {pattern!r}:\n{self.screen}"
        return found

    def type(self, text: str) -> None:
        """Type a text; ``\\x03`` is Ctrl-C."""
        self.process.send(text)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        self._screen.resize(lines, columns)
        self.process.setwinsize(lines, columns)

    def close_terminal(self) -> None:
        """Close the terminal, as a window is closed; the command remains."""
        self.process.ptyproc.fileobj.close()

    def ended(self) -> int:
        """Read to the end, if the terminal is open; return the exit status."""
        deadline = time.monotonic() + self._limit_s
        while not self.process.ptyproc.fileobj.closed and self._read():
            assert time.monotonic() < deadline, f"the command does not end:\n{self.screen}"
        self.process.ptyproc.wait()
        self.process.exitstatus = self.process.ptyproc.exitstatus
        assert self.process.exitstatus is not None, f"a signal ended the command:\n{self.screen}"
        return int(self.process.exitstatus)

    def _read(self) -> bool:
        """Read what has come, waiting a second for it; return False at the end."""
        try:
            piece = self.process.read_nonblocking(65536, timeout=1)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += piece
        self._stream.feed(piece)
        return True
