"""The guide of bare guests, typed at a terminal from ``lab up`` to ``lab down``: the way of README on real kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed_page import Reader, lab_ends, path_with

pytestmark = [pytest.mark.lab, pytest.mark.timeout(4200)]

GUIDE = Path(__file__).parents[2] / "docs/guides/bare-guests.md"


def test_the_guide_is_what_happens(tmp_path: Path) -> None:
    with lab_ends(tmp_path):
        Reader(tmp_path, {"PATH": path_with()}).follows(GUIDE)
