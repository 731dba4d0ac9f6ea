"""Scales from values to pixels, and the ticks of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clusterctl.report.text.table import size

_DECADES = (1.0,)
_OF_DECADES = (1.0, 2.0, 5.0)
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick: its value and its label."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Map values ``low`` to ``high`` to pixels ``start`` to ``end``; ``log`` needs ``low`` above zero."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low))
        share = 0.5 if high == low else (at - low) / (high - low)
        return self.start + share * (self.end - self.start)


def linear_ticks(high: float, count: int) -> tuple[Tick, ...]:
    """Return round ticks from zero to the first at or above ``high``, about ``count`` of them."""
    step = _nice_step(high / max(count, 1))
    digits = max(0, -math.floor(math.log10(step) + 1e-9) + (1 if _mantissa(step) == 2.5 else 0))
    last = math.ceil(high / step - 1e-9)
    return tuple(Tick(index * step, f"{index * step:.{digits}f}") for index in range(last + 1))


def _nice_step(rough: float) -> float:
    if rough <= 0 or not math.isfinite(rough):
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(step for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _mantissa(step: float) -> float:
    return round(step / 10.0 ** math.floor(math.log10(step) + 1e-9), 6)


def size_ticks(low: float, high: float, count: int) -> tuple[Tick, ...]:
    """Return ticks at powers of two bytes, equally far apart, at most ``count`` of them; at least one."""
    first, last = math.ceil(math.log2(max(low, 1)) - 1e-9), math.floor(math.log2(max(high, 1)) + 1e-9)
    # Ticks start at the first size, because sweeps double from there: each tick is then at a measured size. Steps that
    # divide ten give 1, 32 and 1024 of each unit.
    step = next((s for s in (1, 2, 5, 10, 20, 30) if (last - first) // s + 1 <= count), 40)
    powers = range(first, last + 1, step)
    # The range may lie between two powers of two: then the bounds are the ticks.
    return tuple(Tick(2.0**power, size(2**power)) for power in powers) or (Tick(low, size(round(low))),)


def log_bounds(lowest: float, highest: float) -> tuple[float, float]:
    """Return bounds of a logarithmic axis: decades, or multiples 1, 2 and 5 if all values are within two decades."""
    low, high = _round_log(lowest, _DECADES, up=False), _round_log(highest, _DECADES, up=True)
    if high / low <= 100:
        low, high = (
            _round_log(lowest, _OF_DECADES, up=False),
            _round_log(highest, _OF_DECADES, up=True),
        )
    if high / low < 4:  # two ticks are too few to show a logarithmic scale
        low = _round_log(low / 2, _OF_DECADES, up=False)
    return low, high if high > low else low * 10


def log_ticks(low: float, high: float, label: Callable[[float], str]) -> tuple[Tick, ...]:
    """Return a tick per decade within the bounds, or at multiples 1, 2 and 5 of few decades."""
    kinds = _OF_DECADES if high / low <= 100 else _DECADES
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    values = [kind * 10.0**power for power in powers for kind in kinds]
    return tuple(Tick(v, label(v)) for v in values if low * 0.999 <= v <= high * 1.001)


def _round_log(value: float, kinds: Sequence[float], *, up: bool) -> float:
    power = math.floor(math.log10(value))
    values = [kind * 10.0**p for p in (power - 1, power, power + 1) for kind in kinds]
    if up:
        return min(v for v in values if v >= value * 0.999)
    return max(v for v in values if v <= value * 1.001)


def duration(time_us: float) -> str:
    """Return a time in a readable unit: 1500 -> 1.5 ms."""
    for unit, name in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if time_us >= unit:
            return f"{time_us / unit:.4g} {name}"
    return f"{time_us * 1e3:.4g} ns"


def bandwidth(gbps: float) -> str:
    """Return a bandwidth in a readable unit: 0.0015 -> 1.5 MB/s."""
    for unit, name in ((1.0, "GB/s"), (1e-3, "MB/s"), (1e-6, "kB/s")):
        if gbps >= unit * 0.999:
            return f"{gbps / unit:.4g} {name}"
    return f"{gbps * 1e9:.4g} B/s"
