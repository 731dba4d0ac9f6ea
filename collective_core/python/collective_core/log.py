"""The package's log on stderr, for the lines that prove what runs."""

from __future__ import annotations

import logging
import sys

_logger = logging.getLogger("collective_core")


def show_on_stderr() -> None:
    """Write the log's lines from level INFO on to stderr, unless the program has given the log a handler."""
    if not _logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        _logger.addHandler(handler)
        _logger.setLevel(logging.INFO)
