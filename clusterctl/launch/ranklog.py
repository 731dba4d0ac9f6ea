"""Taking the launcher's one stream apart into what each rank wrote, and keeping it in a file per rank."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import TextIO

from clusterctl import log
from clusterctl.launch.attribution import Piece, Reader

_LOG = log.get(__name__)
LAUNCHER_LOG = "launcher.log"
# How launch/hydra.py's script, which stands between mpiexec and each rank, reports that rank's end.
_RANK_NOTICE = "hydra_rank: rank {} "


class RankLog:
    """Takes a launcher's lines; each of ``np`` ranks has ``rank-<n>.log``, the launcher ``launcher.log``.

    ``reader`` says which rank wrote what. The directory is made for the first line. Where the files cannot be written
    (a full disk) they end there, and the run goes on: results are read from what is in memory.
    """

    def __init__(self, folder: Path, reader: Reader, np: int) -> None:
        self._folder = folder
        self._reader = reader
        self._np = np
        self._files: dict[str, TextIO] = {}
        self._stdout: dict[int, list[str]] = {}
        self._stderr: dict[int, list[str]] = {}
        self._launcher: list[str] = []
        self._cut = False

    def __enter__(self) -> RankLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._files.values():
            # What could not be written is tried once more at the end.
            with contextlib.suppress(OSError):
                stream.close()
        self._files.clear()

    def path(self, rank: int) -> Path:
        """Return the path of one rank's log, whether or not it wrote anything."""
        return self._folder / f"rank-{rank}.log"

    def line(self, text: str) -> None:
        """Take one line of the stream, without its end."""
        for piece in self._reader(text):
            self._take(piece)

    def _take(self, piece: Piece) -> None:
        rank = piece.rank
        # A rank may report its own end in the launcher's place, and no other's.
        if rank is None or piece.text.startswith(_RANK_NOTICE.format(rank)):
            self._launcher.append(piece.text.removesuffix("\n"))
            self._write(LAUNCHER_LOG, piece.text)
        elif rank < self._np:
            kept = self._stdout if piece.stream == "stdout" else self._stderr
            kept.setdefault(rank, []).append(piece.text)
            self._write(f"rank-{rank}.log", piece.text)

    def _write(self, name: str, text: str) -> None:
        if self._cut:
            return
        try:
            if name not in self._files:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                # What ranks print may hold secrets: only the owner may read it.
                descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._files[name] = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
            self._files[name].write(text)
            self._files[name].flush()
        except OSError as error:
            self._cut = True
            _LOG.warning("the ranks' logs in %s end here: %s", self._folder, error.strerror)

    @property
    def by_rank(self) -> dict[int, str]:
        """What each rank wrote to stdout."""
        return {rank: "".join(parts) for rank, parts in sorted(self._stdout.items())}

    @property
    def errors_by_rank(self) -> dict[int, str]:
        """What each rank wrote to stderr."""
        return {rank: "".join(parts) for rank, parts in sorted(self._stderr.items())}

    @property
    def launcher(self) -> str:
        """What the launcher itself said."""
        return "\n".join(self._launcher)
