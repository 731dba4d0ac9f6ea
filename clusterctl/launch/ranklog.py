"""Taking the launcher's one stream apart into what each rank wrote, and keeping it in a file per rank."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from types import TracebackType
from typing import TextIO

from clusterctl import log
from clusterctl.launch.base import TAG

_LOG = log.get(__name__)
LAUNCHER_LOG = "launcher.log"
# What a launcher's own script says in a rank's place is the launcher's word.
RANK_NOTICE = "hydra_rank: "


class RankLog:
    """Takes tagged lines (:attr:`launch.base.Launcher.tag`); a rank has ``rank-<n>.log``, the rest ``launcher.log``.

    A tag may also stand inside a line, where a rank wrote half a line: the pieces go to their ranks. The folder is made
    for the first line. Where the files cannot be written (a full disk) they end there, and the run goes on: results
    are read from what is in memory.
    """

    def __init__(self, folder: Path, tag: re.Pattern[str] = TAG) -> None:
        self._folder = folder
        self._tag = tag
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
        pieces = self._tag.split(text)
        if pieces[0] or len(pieces) == 1:
            self._launcher.append(pieces[0])
            self._write(LAUNCHER_LOG, pieces[0] + "\n")
        for index in range(1, len(pieces), 3):
            rank, stream, content = int(pieces[index]), pieces[index + 1], pieces[index + 2]
            if content.startswith(RANK_NOTICE):
                self._launcher.append(content)
                self._write(LAUNCHER_LOG, content + "\n")
                continue
            end = "\n" if index + 3 >= len(pieces) else ""
            kept = self._stdout if stream == "stdout" else self._stderr
            kept.setdefault(rank, []).append(content + end)
            self._write(f"rank-{rank}.log", content + end)

    def _write(self, name: str, text: str) -> None:
        if self._cut:
            return
        try:
            if name not in self._files:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._files[name] = (self._folder / name).open("a", encoding="utf-8", errors="replace")
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
