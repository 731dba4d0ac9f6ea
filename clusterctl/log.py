"""Log the package's messages to stderr, through one handler that the command line sets up."""

from __future__ import annotations

import logging
import sys

from clusterctl.visible import visible

ROOT = "clusterctl"

_LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Formatter(logging.Formatter):
    """Escape terminal control characters: messages quote text that nodes wrote."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def get(name: str) -> logging.Logger:
    """Return the logger of one module (``__name__``), as a child of the package's logger."""
    return logging.getLogger(name if name.startswith(ROOT) else f"{ROOT}.{name}")


def configure(verbosity: int) -> None:
    """Send the package's messages to stderr: -1 errors only, 0 also warnings, 1 also information, 2 all."""
    logger = logging.getLogger(ROOT)
    logger.setLevel(_LEVELS[max(-1, min(2, verbosity))])
    for old in list(logger.handlers):
        logger.removeHandler(old)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname).1s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
