"""Print a plan: the product of the command, which is also on the screen before a question about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from clusterctl.cli import console
from clusterctl.report.line import TonedLine


def show(text: Sequence[TonedLine], *, on_stdout: bool, on_screen: bool) -> None:
    """Write a plan to stdout, unless stdout holds a JSON document.

    ``on_screen``: a question follows, so a plan that stdout does not bring to the terminal goes to stderr too.
    """
    if on_stdout:
        console.data(text)
        console.flush()
    if on_screen and not (on_stdout and sys.stdout.isatty()):
        console.error(text)
