"""What a rank reported about the CPU quotas of its cgroups during its measurement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clusterctl.text.foreign import NotUnderstood

_MOST = 1 << 63
_MOST_GROUPS = 64
_MOST_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """One cgroup with a quota during a measurement: the growth of the kernel's counters.

    ``periods`` are those in which the group ran, ``stopped`` those in which the kernel stopped it, for ``stopped_us``
    microseconds, summed over CPUs.
    """

    group: str
    quota_us: int
    period_us: int
    periods: int
    stopped: int
    stopped_us: int

    @property
    def cpus(self) -> float:
        """Return the quota as a number of CPUs."""
        return self.quota_us / self.period_us


@dataclass(frozen=True, slots=True)
class RankQuotas:
    """The quotas of one rank during a measurement of so many seconds, and what could not be compared."""

    elapsed_s: float
    groups: tuple[QuotaUse, ...] = ()
    unread: tuple[str, ...] = ()


def of_report(report: object) -> RankQuotas | None:
    """Return the report of a rank; None if it has none, or if it is malformed."""
    if not isinstance(report, dict):
        return None
    try:
        elapsed_s = report["elapsed_s"]
        if type(elapsed_s) not in (int, float) or not 0 <= elapsed_s < _MOST:
            raise NotUnderstood(f"{elapsed_s!r:.40} is not a time")
        found = [_group(entry) for entry in _list(report["groups"])]
        unread = [_text(reason) for reason in _list(report["unread"])]
    except (NotUnderstood, LookupError, TypeError):
        return None
    groups = tuple(one for one in found if isinstance(one, QuotaUse))
    return RankQuotas(float(elapsed_s), groups, (*unread, *(one for one in found if isinstance(one, str))))


def of_reports(reports: Iterable[object]) -> tuple[RankQuotas | None, ...]:
    """Return the reports of all ranks, in their order."""
    return tuple(map(of_report, reports))


def _group(entry: dict[str, Any]) -> QuotaUse | str:
    """Return how much of a group's quota was used, or why that is not known."""
    group, quota, period = _text(entry["group"]), _whole(entry["quota_us"]), _whole(entry["period_us"])
    if not period:
        raise NotUnderstood("a period of 0")
    before, after = entry["before"], entry["after"]
    if before is None or after is None:
        when = "before" if before is None else "after"
        return f"{group} has a CPU quota, but its counters were not read {when} the measurement"
    old, new = map(_whole, _three(before)), map(_whole, _three(after))
    periods, stopped, stopped_us = (now - was for was, now in zip(old, new, strict=True))
    if min(periods, stopped, stopped_us) < 0:
        return f"the counters of {group} fell during the measurement: how long its CPU quota stopped it is unknown"
    return QuotaUse(group, quota, period, periods, stopped, stopped_us)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_GROUPS:
        raise NotUnderstood(f"{value!r:.40} is not a short list")
    return value


def _three(value: object) -> list[Any]:
    found = _list(value)
    if len(found) != 3:
        raise NotUnderstood(f"{len(found)} counters instead of 3")
    return found


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise NotUnderstood(f"{value!r:.40} is not a counter")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise NotUnderstood(f"{value!r:.40} is not a text")
    return value[:_MOST_CHARACTERS]
