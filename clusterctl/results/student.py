"""Student's t distribution for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""

from __future__ import annotations

import math
from functools import lru_cache

# With more degrees, the distribution differs from the normal one by less than a thousandth.
_MOST_DEGREES = 1000


def two_sided(t: float, degrees: int) -> float:
    """Return the probability that a value is farther from zero than ``t`` (at least 0)."""
    degrees = min(degrees, _MOST_DEGREES)
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (sine * cosine, 0.0) if odd else (sine, 0.0)
    for index in range(1, degrees // 2 + 1):
        total += term
        term *= cosine**2 * (2 * index / (2 * index + 1) if odd else (2 * index - 1) / (2 * index))
    inside = 2 / math.pi * (angle + total) if odd else total
    return max(0.0, 1 - inside)


@lru_cache(maxsize=4096)
def quantile(degrees: int, share: float) -> float:
    """Return the distance from zero that the given share of values exceeds, on both sides together."""
    low, high = 0.0, 1.0
    while two_sided(high, degrees) > share:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > share else (low, middle)
    return high
