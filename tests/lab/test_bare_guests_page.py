"""The guide of bare guests, typed at a terminal from ``lab up`` to ``lab down``: the way of README on real kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typed_page import Reader

pytestmark = [pytest.mark.lab, pytest.mark.timeout(4200)]

GUIDE = Path(__file__).parents[2] / "docs/guides/bare-guests.md"


def test_the_guide_is_what_happens(tmp_path: Path) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    try:
        Reader(tmp_path, {"PATH": path}).follows(GUIDE)
    finally:
        subprocess.run(
            (Path(sys.executable).with_name("clusterctl"), "lab", "down"),
            cwd=tmp_path, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
