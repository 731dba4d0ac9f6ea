"""How much of a long sweep is tried: a sample in ``make test``, everything in ``make soak``.

A test with such a sweep is marked ``soak``. It runs in both; the marker is how ``make soak`` finds it. The points of a
sample are drawn with ``SWEEP_SEED``, which ``make test`` sets to the day and the head of a run prints.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
SOAK = os.environ.get("CLUSTERCTL_SOAK") == "1"
SEED = os.environ.get("SWEEP_SEED") or "0"


def spread(points: Sequence[T], sample: int) -> Sequence[T]:
    """Return all points in a soak, else one drawn from each of ``sample`` equal parts, in order."""
    if SOAK or len(points) <= sample:
        return points
    draw = random.Random(SEED)
    ends = [number * len(points) // sample for number in range(sample + 1)]
    return [points[draw.randrange(begin, end)] for begin, end in itertools.pairwise(ends)]
