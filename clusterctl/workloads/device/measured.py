"""One measurement of a device, as the rows of ``device_perf`` return it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DeviceMeasured:
    """A value with its unit. ``value`` None: this device cannot do it, and ``reason`` tells why."""

    name: str
    value: float | None
    unit: str
    reason: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


def short(value: float) -> float:
    """Return the value as it is written: six digits are more than a measurement has."""
    return float(f"{value:.6g}")
