"""Log the package's messages through one handler, for which the command line supplies the output."""

from __future__ import annotations

import logging
from collections.abc import Callable

ROOT = "clusterctl"

_LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class _Handler(logging.Handler):
    """Pass each message on as a text, without the name of its logger, which means nothing to users."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        self._write(level + self.format(record))


def get(name: str) -> logging.Logger:
    """Return the logger of one module (``__name__``), as a child of the package's logger."""
    return logging.getLogger(name if name.startswith(ROOT) else f"{ROOT}.{name}")


def configure(verbosity: int, write: Callable[[str], None]) -> None:
    """Pass the package's messages to ``write``: -1 errors only, 0 also warnings, 1 also information, 2 all."""
    logger = logging.getLogger(ROOT)
    logger.setLevel(_LEVELS[max(-1, min(2, verbosity))])
    for old in list(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(_Handler(write))
    logger.propagate = False
