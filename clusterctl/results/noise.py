"""Tell whether compared figures differ by more than their noise.

The method is Welch's t-test on the medians of the repeats, for all ratios of one table together:

- The variance of each median comes from the repeats of its own side only.
- The probabilities are corrected for the number of ratios by Holm's method (Scandinavian Journal of Statistics 6,
  1979), so that of 50 tables of equal runs at most one has a wrong "faster" or "slower".
- A difference below a floor is noise, even if the repeats agree better: other launches of the same configuration differ
  in placement, clocks and neighbours. Only interleaved variants share these.
- A figure that was measured once has no known noise, so it is never faster or slower.
- A difference within the noise is undecided if the ranges of the repeats do not touch and it exceeds the floor: more
  repeats can tell.

``benchmarks/compare_noise.py`` simulates the rate of false alarms and the power, and counts false alarms of real runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from clusterctl.documents.bench import Spread
from clusterctl.documents.kinds import ComparisonWord

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


FALSE_ALARMS = 0.02
"""The share of tables of equal runs that may have any wrong "faster" or "slower"."""
FLOOR = 0.05
"""The smallest difference between separate runs that counts."""
FLOOR_INTERLEAVED = 0.01
"""The smallest difference between variants of one run that counts."""
MOST_REPEATS = 50
"""More repeats are not proposed: by then, the load of the machine has changed."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """How much a figure varies: its standard deviation as a share, from ``degrees`` + 1 values.

    ``repeats`` is the number of launches behind the figure. The windows of one training are values of one launch.
    """

    sigma: float
    degrees: int
    repeats: int

    @property
    def variance(self) -> float:
        """Return the variance of the median of the repeats.

        That of a mean, times pi/2 for many repeats and 1 for one.
        """
        return self.sigma**2 * (math.pi / 2) / (self.repeats + math.pi / 2 - 1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A ratio of two figures, and how much each of them varies (None: measured once).

    ``apart``: all repeats of one side are faster than all of the other.
    """

    ratio: float
    one: Scatter | None
    other: Scatter | None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a ratio, and the noise that a difference must exceed as a share; None: unknown.

    ``repeats``: how many would tell an undecided difference from noise, if they vary as much; None: more than
    MOST_REPEATS, or it is decided.
    """

    word: ComparisonWord
    noise: float | None
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class _Test:
    error: float
    degrees: int

    def probability(self, ratio: float) -> float:
        away = abs(math.log(ratio))
        return two_sided(away / self.error, self.degrees) if self.error else float(away == 0)

    def band(self, share: float, floor: float) -> float:
        return max(floor, math.expm1(min(quantile(self.degrees, share) * self.error, 50.0)))


def scatter_of_repeats(cv: float | None, repeats: int, rounding: float = 0.0) -> Scatter | None:
    """Return how repeated figures vary; ``rounding`` is the largest rounding error of a figure as a share."""
    if cv is None or repeats < 2:
        return None
    return Scatter(math.hypot(cv, rounding / math.sqrt(3)), repeats - 1, repeats)


def judge(pairs: Sequence[Pair], floor: float = FLOOR) -> list[Meaning]:
    """Return the meaning of each ratio of one table."""
    tests = [_test(pair) for pair in pairs]
    unlikely = [
        test.probability(pair.ratio) if test else 1.0 for test, pair in zip(tests, pairs, strict=True)
    ]
    repeated = [index for index, pair in enumerate(pairs) if pair.one is not None and pair.other is not None]
    shares = dict.fromkeys(range(len(pairs)), FALSE_ALARMS / max(len(pairs), 1))
    left = len(repeated)
    for index in sorted(repeated, key=lambda index: unlikely[index]):
        shares[index] = FALSE_ALARMS / left
        # Holm: each difference that is found leaves one ratio less to correct for.
        if unlikely[index] < shares[index]:
            left = max(left - 1, 1)
    found = []
    for index, (pair, test) in enumerate(zip(pairs, tests, strict=True)):
        noise = test.band(shares[index], floor) if test else None
        word = _word(pair, noise, floor)
        needed = (
            _enough(pair, FALSE_ALARMS / len(repeated), floor) if word is ComparisonWord.UNDECIDED else None
        )
        found.append(Meaning(word, noise, needed))
    return found


def do_not_touch(one: Spread, other: Spread) -> bool:
    """Return whether all repeats of one side are above all of the other; False if one was measured once."""
    repeated = min(len(one.values), len(other.values)) > 1
    return repeated and (one.least > other.greatest or other.least > one.greatest)


def what_decides(needed: Iterable[int | None]) -> str:
    """Return a sentence on what would decide undecided differences, each with its repeats; empty if there are none."""
    repeats = list(needed)
    if not repeats:
        return ""
    known = [one for one in repeats if one is not None]
    how = f"--repeats {max(known)} decides, if they vary as much" if known else ""
    if len(known) < len(repeats):
        idle = f"even {MOST_REPEATS} repeats may not decide: measure while the machines are idle"
        how = f"{how}; for some, {idle}" if how else idle
    return f"Undecided: the ranges of the repeats do not touch, but so few can differ by chance; {how}."


def _enough(pair: Pair, share: float, floor: float) -> int | None:
    """Return the fewest repeats that most likely tell the difference from noise, if it stays and they vary as much."""
    if pair.one is None or pair.other is None:
        return None
    one, other = pair.one, pair.other
    for repeats in range(max(one.repeats, other.repeats) + 1, MOST_REPEATS + 1):
        of_one, of_other = (Scatter(side.sigma, repeats - 1, repeats) for side in (one, other))
        test = _test(Pair(pair.ratio, of_one, of_other))
        # Five times in six: the difference exceeds the noise by one standard error.
        if test is not None and abs(math.log(pair.ratio)) - test.error > math.log1p(test.band(share, floor)):
            return repeats
    return None


def _is_noise(pair: Pair, noise: float) -> bool:
    return abs(math.log(pair.ratio)) <= math.log1p(noise)


def _test(pair: Pair) -> _Test | None:
    one, other = pair.one, pair.other
    if one is not None and other is not None:
        variances = one.variance, other.variance
        spread = variances[0] ** 2 / one.degrees + variances[1] ** 2 / other.degrees
        # Welch-Satterthwaite; equal values on both sides have no variance.
        degrees = sum(variances) ** 2 / spread if spread else one.degrees + other.degrees
        return _Test(math.sqrt(sum(variances)), max(1, math.floor(degrees + 1e-9)))
    known = one or other
    if known is None:
        return None
    # The interval in which one more launch of the same kind lies.
    return _Test(math.sqrt(known.variance + known.sigma**2), known.degrees)


def _word(pair: Pair, noise: float | None, floor: float) -> ComparisonWord:
    if noise is not None and _is_noise(pair, noise):
        return ComparisonWord.UNDECIDED if pair.apart and not _is_noise(pair, floor) else ComparisonWord.SAME
    if pair.one is None or pair.other is None:
        return ComparisonWord.ONCE
    return ComparisonWord.FASTER if pair.ratio > 1 else ComparisonWord.SLOWER
