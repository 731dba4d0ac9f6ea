"""Split the launcher's single stream by rank, and keep the output of each rank in a file."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from clusterctl import log
from clusterctl.launch.attribution import Piece, Reader

_LOG = log.get(__name__)
LAUNCHER_LOG = "launcher.log"
# How the scripts that run between the launcher and a rank (launchers/hydra.py, program_rank.sh) report that rank's end.
# The whole line, because a rank may print the beginning, too.
_RANK_NOTICE = re.compile(
    r"(?:hydra|program)_rank: rank (?P<rank>\d{1,9}) (?:\(pid \d{1,9}\) )?on \S{1,255} exited with status \d{1,3}\n?"
)


class _Text:
    """Keep what a rank wrote to one stream: all of it, or so many characters of its begin and of its end."""

    def __init__(self, keep_chars: int | None) -> None:
        self._keep = keep_chars
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_chars = self._tail_chars = 0

    def add(self, text: str) -> None:
        if self._keep is None or self._head_chars < self._keep:
            self._head.append(text)
            self._head_chars += len(text)
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars > self._keep and len(self._tail) > 1:
            self._tail_chars -= len(self._tail.popleft())

    def text(self) -> str:
        return "".join((*self._head, *self._tail))


class RankLog:
    """Collect a launcher's lines; write ``rank-<n>.log`` for each of ``np`` ranks and ``launcher.log``.

    ``reader`` attributes text to ranks; ``follow`` receives rank 0's stdout as it
    arrives. The first line creates the directory. If writing fails (full disk), the files
    stay incomplete and the run continues, because results are read from memory.
    """

    def __init__(
        self,
        folder: Path,
        reader: Reader,
        np: int,
        follow: Callable[[str], None] = lambda _: None,
        keep_chars: int | None = None,
        follow_errors: bool = False,
    ) -> None:
        """Prepare the files.

        ``keep_chars``: how much of each stream's begin and end stays in memory (None: all). ``follow_errors``:
        ``follow`` receives rank 0's stderr, too, where programs show their progress.
        """
        self._folder = folder
        self._reader = reader
        self._np = np
        self._follow = follow
        self._files: dict[str, TextIO] = {}
        self._keep = keep_chars
        self._follow_errors = follow_errors
        self._stdout: dict[int, _Text] = {}
        self._stderr: dict[int, _Text] = {}
        self._launcher: list[str] = []
        self._wrote: dict[int, float] = {}
        self._wrote_last = time.monotonic()
        self._cut = False
        self.first_end: float | None = None
        """When the first rank was reported to have failed, by the monotonic clock."""

    def __enter__(self) -> RankLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._files.values():
            # Closing retries a failed write, and may fail again.
            with contextlib.suppress(OSError):
                stream.close()
        self._files.clear()

    def path(self, rank: int) -> Path:
        """Return the path of one rank's log; the file exists only if the rank wrote something."""
        return self._folder / f"rank-{rank}.log"

    def line(self, text: str) -> None:
        """Add one line of the stream, without its line end."""
        for piece in self._reader(text):
            self._take(piece)

    def _take(self, piece: Piece) -> None:
        rank = piece.rank
        # A rank's script may report the end of that rank, but not of another rank.
        notice = _RANK_NOTICE.fullmatch(piece.text)
        if rank is None or (notice is not None and int(notice["rank"]) == rank):
            if notice is not None and self.first_end is None:
                self.first_end = time.monotonic()
            self._launcher.append(piece.text.removesuffix("\n"))
            self._write(LAUNCHER_LOG, piece.text)
        elif rank < self._np:
            kept = self._stdout if piece.stream == "stdout" else self._stderr
            kept.setdefault(rank, _Text(self._keep)).add(piece.text)
            self._wrote[rank] = self._wrote_last = time.monotonic()
            self._write(f"rank-{rank}.log", piece.text)
            if rank == 0 and (piece.stream == "stdout" or self._follow_errors):
                self._follow(piece.text)

    def _write(self, name: str, text: str) -> None:
        if self._cut:
            return
        try:
            if name not in self._files:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                # The output of ranks may contain secrets: only the owner may read it.
                descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._files[name] = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
            self._files[name].write(text)
            self._files[name].flush()
        except OSError as error:
            self._cut = True
            _LOG.warning(
                "the ranks' logs in %s are incomplete, writing failed: %s", self._folder, error.strerror
            )

    @property
    def by_rank(self) -> dict[int, str]:
        """Return what each rank wrote to stdout."""
        return {rank: parts.text() for rank, parts in sorted(self._stdout.items())}

    @property
    def errors_by_rank(self) -> dict[int, str]:
        """Return what each rank wrote to stderr."""
        return {rank: parts.text() for rank, parts in sorted(self._stderr.items())}

    def silent_s(self) -> dict[int, float]:
        """Return for how many seconds each rank that wrote something has written nothing."""
        now = time.monotonic()
        return {rank: now - at for rank, at in list(self._wrote.items())}

    def quiet_s(self) -> float:
        """Return for how many seconds no rank has written anything."""
        return time.monotonic() - self._wrote_last

    @property
    def launcher(self) -> str:
        """Return the launcher's own output."""
        return "\n".join(self._launcher)
