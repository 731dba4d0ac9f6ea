"""What each rank reported to have used: variables of its environment, and the algorithm of each operation, by size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterctl.benchmarks import cpu_quota, energy
from clusterctl.benchmarks.cpu_quota import RankQuotas
from clusterctl.benchmarks.energy import GpuEnergy
from clusterctl.documents.evidence import Calls
from clusterctl.text.foreign import NotUnderstood, json_value, lines
from clusterctl.text.visible import one_line_texts

_LINE = re.compile(r"# Usage of rank (?P<rank>\d{1,9}): (?P<report>\{.*\})")
_MOST = 1 << 63
_MOST_CALLS = 4096
_WORDS = 500


@dataclass(frozen=True, slots=True)
class MappedFile:
    """Hold a file of a library of others in a rank's memory map."""

    path: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.path} (sha256 {self.sha256[:12]})"


@dataclass(frozen=True, slots=True)
class RankUsage:
    """Hold one rank's report: variables that took effect, and those without effect with the reason.

    ``reported_by`` is the backend that reported; ``none`` if only the program itself did.
    """

    rank: int
    reported_by: str
    read: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    transports: tuple[str, ...] = ()
    calls: tuple[Calls, ...] = ()
    mechanisms: Mapping[str, int] = field(default_factory=dict)
    """How often each mechanism of the program itself was used, such as ``fp16``."""
    files: tuple[MappedFile, ...] = ()
    """The mapped files of the library of others that the launch asked for."""
    quotas: RankQuotas | None = None
    """The CPU quotas of the rank, and how long they stopped it."""
    energy: GpuEnergy | str = energy.NOT_READ
    """The energy of the rank's GPU, or why it is not available."""


def of_table(text: str) -> tuple[RankUsage, ...]:
    """Return the reports that rank 0 of the torch program printed for all ranks."""
    found = {}
    for match in filter(None, map(_LINE.search, lines(text))):
        try:
            found[int(match["rank"])] = one_line_texts(json_value(match["report"]))
        except NotUnderstood:
            continue
    return of_reports(found.items())


def of_reports(reports: Iterable[tuple[int, object]]) -> tuple[RankUsage, ...]:
    """Return the reports of these ranks; what is malformed is left out, so that it proves nothing."""
    return tuple(_usage(rank, report) for rank, report in reports if isinstance(report, dict))


def algorithms(usage: Sequence[RankUsage]) -> tuple[Calls, ...]:
    """Return the operations of rank 0, which the other ranks share."""
    return next((one.calls for one in usage if one.rank == 0), ())


def _usage(rank: int, report: Mapping[str, Any]) -> RankUsage:
    return RankUsage(
        rank,
        _text(report.get("reported_by")) or "none",
        _texts(report.get("read")),
        _texts(report.get("ignored")),
        tuple(filter(None, map(_text, _list(report.get("transports"))))),
        tuple(sorted(filter(None, map(_calls, _list(report.get("calls")))))),
        _counts(report.get("mechanisms")),
        tuple(filter(None, map(_file, _list(report.get("files"))))),
        cpu_quota.of_report(report.get("cpu_quota")),
        energy.of_report(report.get("energy")),
    )


def _calls(entry: object) -> Calls | None:
    if not isinstance(entry, dict):
        return None
    operation, algorithm = _text(entry.get("operation")), _text(entry.get("algorithm"))
    size, calls = entry.get("bytes"), entry.get("calls")
    if not operation or type(size) is not int or type(calls) is not int:
        return None
    if not (0 <= size < _MOST and 0 < calls < _MOST):
        return None
    return Calls(operation, size, algorithm, calls)


def _file(entry: object) -> MappedFile | None:
    if not isinstance(entry, dict):
        return None
    path, sha256 = _text(entry.get("path")), _text(entry.get("sha256"))
    return MappedFile(path, sha256) if path and sha256 else None


def _list(value: object) -> list[Any]:
    return value[:_MOST_CALLS] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:_WORDS] if isinstance(value, str) else ""


def _counts(value: object) -> dict[str, int]:
    named = value.items() if isinstance(value, dict) else ()
    return {name[:_WORDS]: count for name, count in named if type(count) is int and 0 <= count < _MOST}


def _texts(value: object) -> dict[str, str]:
    named = value.items() if isinstance(value, dict) else ()
    return {name[:_WORDS]: _text(said) for name, said in named if isinstance(name, str)}
