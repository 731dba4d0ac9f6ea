"""The package's logger: talk goes to stderr, through one handler that the command line sets up."""

from __future__ import annotations

import logging
import sys

from clusterctl.visible import visible

ROOT = "clusterctl"

_LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Formatter(logging.Formatter):
    """Messages quote what nodes wrote: nothing in them acts on the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def get(name: str) -> logging.Logger:
    """Return the logger of one module (``__name__``), below the package's own."""
    return logging.getLogger(name if name.startswith(ROOT) else f"{ROOT}.{name}")


def configure(verbosity: int) -> None:
    """Send the package's messages to stderr: -1 errors only, 0 warnings, 1 information, 2 everything."""
    logger = logging.getLogger(ROOT)
    logger.setLevel(_LEVELS[max(-1, min(2, verbosity))])
    for old in list(logger.handlers):
        logger.removeHandler(old)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname).1s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
