"""What ranks reported about the energy of their GPUs during the measured part of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.text.foreign import NotUnderstood

NOT_READ = "the measured program does not read NVML's energy counter"
LEAST_S = 1.0
"""The shortest measurement that has an energy: drivers update the counter about every 0.1 s."""
_MOST = 1 << 63
_MOST_W = 10_000.0
"""More than any GPU draws; a counter that grows faster is wrong."""
_MOST_PER_UNIT = 1e9
"""The most joules per byte or step, so that those per GB stay within the bound of results (1e18)."""
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class GpuEnergy:
    """The energy of one GPU during ``elapsed_s`` seconds, in which all ranks did ``work`` bytes or steps."""

    gpu: str
    joules: float
    elapsed_s: float
    work: float


def of_report(report: object) -> GpuEnergy | str:
    """Return the energy that a rank reported, or why it is not available."""
    if not isinstance(report, dict):
        return NOT_READ
    try:
        if "reason" in report:
            return _text(report["reason"])
        before, after = _number(report["before_mj"]), _number(report["after_mj"])
        found = GpuEnergy(
            _text(report["gpu"]),
            (after - before) / 1e3,
            _number(report["elapsed_s"]),
            _number(report["work"]),
        )
    except (NotUnderstood, LookupError):
        return "a rank's report on its energy is malformed"
    if after < before:
        return "the energy counter of a GPU went back during the run"
    if found.elapsed_s < LEAST_S or not found.work:
        return (
            f"the measured part took {found.elapsed_s:.1f} s, and the energy counter needs {LEAST_S:g} s; "
            "raise --iters"
        )
    if found.joules > _MOST_W * found.elapsed_s:
        watts = found.joules / found.elapsed_s
        return f"the energy counter of a GPU grew by {watts:.4g} W, which no GPU draws"
    return found


def per_unit(ranks: Sequence[GpuEnergy | str], np: int) -> float | str:
    """Return the joules of the GPUs of ``np`` ranks per byte or step, or why they are not available."""
    found = [one for one in ranks if isinstance(one, GpuEnergy)]
    if len(found) < len(ranks) or not found:
        return next((one for one in ranks if isinstance(one, str)), NOT_READ)
    if len(found) < np:
        return f"only {len(found)} of {np} ranks reported their energy"
    if len({one.work for one in found}) > 1:
        return "the ranks report different numbers of bytes or steps"
    gpus: dict[str, float] = {}
    for one in found:
        # Ranks that share a GPU read the same counter.
        gpus[one.gpu] = max(one.joules, gpus.get(one.gpu, 0.0))
    spent = sum(gpus.values()) / found[0].work
    return spent if spent <= _MOST_PER_UNIT else "the ranks report too few bytes or steps"


def _number(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value < _MOST:  # type: ignore[operator]
        raise NotUnderstood(f"{value!r:.40} is not a number from 0 to 2^63")
    return float(value)  # type: ignore[arg-type]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise NotUnderstood(f"{value!r:.40} is not a text")
    return value[:_MOST_CHARACTERS]
