"""Show progress on one line of stderr, for a person at a terminal; the line is cleared at the end."""

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
    """Return whether stderr is a terminal that can overwrite a line, and --quiet is not set.

    TERM is ``dumb`` for a terminal that cannot (terminfo(5), user_caps(5): Emacs' shell, some CI systems).
    """
    quiet = logging.getLogger(log.ROOT).getEffectiveLevel() > logging.WARNING
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not quiet


class StatusLine:
    """Show a status line; the context clears it at its end."""

    def __init__(self) -> None:
        self._shown = wanted()

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, text: str) -> None:
        """Replace the shown text."""
        self._write(visible(" ".join(text.split()))[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        if self._shown:
            self._shown = _written(f"\r\033[K{text}")


def _written(text: str) -> bool:
    """Overwrite the line; return False if the terminal was closed (the window of a disowned job).

    An exception here would end the work on all nodes, so errors are not raised.
    """
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        console.abandon(sys.stderr)
        return False
    return True


class Progress:
    """Show how many nodes have answered, if there is more than one node."""

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
