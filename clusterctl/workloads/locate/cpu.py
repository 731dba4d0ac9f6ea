"""What ranks without a GPU measure, and the name of their CPU."""

from __future__ import annotations

import platform
from pathlib import Path

MESSAGE_BYTES = 4 << 20
ITERS = 1
WINDOW_S = 0.5
COPY_BYTES = 8 << 20
_LONGEST_NAME = 100


def name() -> str:
    """Return the product name of the CPU, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())[:_LONGEST_NAME]
