"""One line on stderr that says how far the work is: written over, for a person at a terminal, gone at the end."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from clusterctl import log
from clusterctl.cli import console
from clusterctl.visible import visible

if TYPE_CHECKING:
    from clusterctl.inventory.model import Node


def wanted() -> bool:
    """Whether somebody looks at a terminal that can write over a line, and did not ask for quiet.

    TERM is ``dumb`` where it cannot (terminfo(5), user_caps(5): Emacs' shell, some CI systems).
    """
    quiet = logging.getLogger(log.ROOT).getEffectiveLevel() > logging.WARNING
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not quiet


class StatusLine:
    """The line, as a context that clears it at its end."""

    def __init__(self) -> None:
        self._shown = wanted()

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, text: str) -> None:
        """Show the text in place of what was shown before."""
        self._write(visible(" ".join(text.split()))[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        if self._shown:
            self._shown = _written(f"\r\033[K{text}")


def _written(text: str) -> bool:
    """Write over the line; say no where the terminal is gone (a window closed on a job that was disowned).

    The work goes on: an exception in here would end it, on all nodes at once.
    """
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        console.abandon(sys.stderr)
        return False
    return True


class Progress:
    """Counts the nodes that have answered, where there is more than one."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._shown = total > 1 and wanted()

    def advance(self, _node: Node, _outcome: object) -> None:
        """Count one node."""
        self._done += 1
        if self._shown:
            self._shown = _written(f"\r{self._what}: {self._done}/{self._total}")

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            _written("\r\033[K")
