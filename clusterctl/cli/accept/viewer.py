"""Show on the terminal which rows run on which nodes."""

from __future__ import annotations

from clusterctl.acceptance.engine import AcceptViewer
from clusterctl.acceptance.model import AcceptRow, RowOutcome
from clusterctl.cli.terminal.progress import Progress


class RowProgress(AcceptViewer):
    """Count finished rows, and show what runs on each node."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def starting(self, node: str, row: AcceptRow) -> None:
        """Show a row that starts on a node."""
        self._progress.now(node, row.title)

    def ended(self, outcome: RowOutcome) -> None:
        """Count a row that ended on a node."""
        self._progress.advance(outcome.node)

    def say(self, text: str) -> None:
        """Show a line of progress."""
        self._progress.say(text)
