"""Keep lines up to date at the end of what stderr's terminal shows; other output appears above them.

rich.live is not used: it hides the cursor, which stays hidden after Ctrl-Z or a kill, and an error of a terminal that
was closed ends its thread with a traceback.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Protocol

from clusterctl.cli.terminal import color
from clusterctl.cli.terminal.streams import abandon, encodable
from clusterctl.report.line import Tone, TonedLine, labelled

PERIOD_S = 0.25
_MOST_LINES = 12
_ECHO = "^C"
"""What a terminal writes at the cursor when it interrupts: behind a full line, a new line that no redraw erases."""


class LineSource(Protocol):
    """What supplies lines of the area."""

    def lines(self, width: int, height: int) -> list[str]:
        """Return plain lines that describe the present state, for this many columns and lines."""
        ...


class LiveArea:
    """The lines that are overwritten; a thread redraws them while there is at least one source."""

    def __init__(self) -> None:
        # Reentrant, because a source may be removed by an exception that interrupts a draw.
        self._lock = threading.RLock()
        self._sources: list[LineSource] = []
        self._drawn: list[str] = []
        self._paused = 0
        self._ended = threading.Event()

    def add(self, source: LineSource) -> None:
        """Show the lines of a source until it is removed, from the next redraw on."""
        with self._lock:
            self._sources.append(source)
            if len(self._sources) == 1:
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGCONT, self._forget)
                self._ended = threading.Event()
                threading.Thread(
                    target=self._redraw, args=(self._ended,), name="clusterctl-live-area", daemon=True
                ).start()

    def remove(self, source: LineSource) -> None:
        """Stop showing a source; nothing happens if it is not shown."""
        with self._lock:
            if source in self._sources:
                self._sources.remove(source)
                self._draw(self._lines() if self._may_redraw(self._drawn) else [])
            if not self._sources:
                self._ended.set()

    @contextlib.contextmanager
    def above(self) -> Iterator[None]:
        """Let the block write whole lines above the area; it must flush what it wrote."""
        with self._lock:
            before = self._drawn
            self._draw([])
            yield
            if self._may_redraw(before):
                self._draw(self._lines())

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Show no area during the block, which asks a question."""
        with self._lock:
            self._draw([])
            self._paused += 1
        try:
            yield
        finally:
            with self._lock:
                self._paused -= 1

    def _forget(self, _number: int, _frame: object) -> None:
        """Forget what is drawn: after Ctrl-Z and fg, the lines above that of the cursor are the shell's."""
        self._drawn = [""]

    def _redraw(self, ended: threading.Event) -> None:
        while not ended.wait(PERIOD_S):
            with self._lock:
                if not _in_foreground():
                    self._drawn = [""]
                elif not ended.is_set():
                    self._draw(self._lines())

    @staticmethod
    def _may_redraw(before: list[str]) -> bool:
        """Return whether lines may be drawn again; those of a background job would stay on the screen."""
        return bool(before) and _in_foreground()

    def _lines(self) -> list[str]:
        if self._paused:
            return []
        size = shutil.get_terminal_size()
        height = max(1, min(_MOST_LINES, size.lines - 1))
        width = max(1, size.columns - 1)
        lines = [line for source in self._sources for line in source.lines(width, height)][:height]
        is_full = bool(lines) and len(lines[-1]) + len(_ECHO) > width
        lines = [color.painted(_toned(line)) for line in lines] if color.wanted(sys.stderr) else lines
        # The echo then overwrites the line's first columns.
        return [*lines[:-1], lines[-1] + "\r"] if is_full else lines

    def _draw(self, lines: list[str]) -> None:
        if lines == self._drawn:
            return
        erase = ""
        if self._drawn:
            up = len(self._drawn) - 1
            erase = "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"
        self._drawn = lines
        try:
            sys.stderr.write(erase + encodable(sys.stderr, "\n".join(lines)))
            sys.stderr.flush()
        except OSError:  # the terminal was closed (the window of a disowned job); the work continues
            abandon(sys.stderr)


def _in_foreground() -> bool:
    """Return whether the shell gave the terminal to this job; a background job must not overwrite lines."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True  # a terminal that no shell controls


def _toned(line: str) -> TonedLine:
    """Return a line with what is done, or on which nodes, in its tone."""
    name, _, _ = line.removeprefix("  ").partition(" ")
    return (
        TonedLine(line, ((2, 2 + len(name), Tone.NAME),))
        if line.startswith("  ")
        else labelled(line, Tone.HEAD)
    )


AREA = LiveArea()
"""The one area of the process's terminal."""
