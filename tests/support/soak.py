"""How much of a long sweep is tried: a sample in ``make test``, everything in ``make soak``.

A test with such a sweep is marked ``soak``. It runs in both; the marker is how ``make soak`` finds it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
SOAK = os.environ.get("CLUSTERCTL_SOAK") == "1"


def spread(points: Sequence[T], sample: int) -> Sequence[T]:
    """Return all points in a soak, else ``sample`` of them, evenly spread with the first and the last."""
    if SOAK or len(points) <= sample:
        return points
    last = len(points) - 1
    return [points[number * last // (sample - 1)] for number in range(sample)]
