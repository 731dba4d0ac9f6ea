"""Parse a recorded NCCL log."""

from __future__ import annotations

from pathlib import Path

from clusterctl.trust.nccl_log import LogReader
from clusterctl.trust.nccl_log_model import NcclLog


def log_of(path: Path) -> NcclLog:
    """Return what the log file holds."""
    reader = LogReader()
    reader.read([path.read_bytes()])
    return reader.result()
