"""How the ranks' data reached the other ranks, as collective_core reports it: on CUDA tensors, and in front of NCCL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from clusterctl.documents.evidence import RankPath
from clusterctl.text.foreign import NotUnderstood, json_value, lines
from clusterctl.text.visible import one_line_texts

REPORT_TO = "fd:2"
"""Where the NCCL-symbol library reports (CCORE_NCCL_REPORT): each rank's standard error, which is kept per rank."""
_SCHEMA = "collective_core.nccl/1"
_LINE = re.compile(r"# Path of rank (?P<rank>\d{1,9}): (?P<path>.{1,500})")
_MOST = 1 << 63
_MOST_RANKS = 1 << 20
_MOST_POWER = 64
_MOST_NAME = 32


def of_table(text: str) -> tuple[RankPath, ...]:
    """Return the paths that rank 0 of the torch program printed for all ranks."""
    found = (_LINE.search(line) for line in lines(text))
    return tuple(RankPath(int(match["rank"]), match["path"].strip()) for match in found if match)


def of_reports(texts: Mapping[int, str]) -> tuple[RankPath, ...]:
    """Return what each rank's NCCL-symbol library reported in the rank's output; other lines are ignored."""
    found: dict[int, RankPath] = {}
    for rank, text in texts.items():
        for line in lines(text):
            report = _report(line)
            if report is not None and rank < _MOST_RANKS:
                found[rank] = _joined(found.get(rank, RankPath(rank)), report)
    return tuple(path for _, path in sorted(found.items()))


def _report(line: str) -> dict[str, Any] | None:
    start = line.find("{")
    if start < 0 or _SCHEMA not in line:
        return None
    try:
        found = one_line_texts(json_value(line[start:]))
    except NotUnderstood:
        return None
    return found if isinstance(found, dict) and found.get("schema") == _SCHEMA else None


def _joined(known: RankPath, report: Mapping[str, Any]) -> RankPath:
    communicators = [one for one in _list(report.get("communicators")) if isinstance(one, dict)]
    functions = report.get("functions")
    counts = functions if isinstance(functions, dict) else {}
    return replace(
        known,
        path=known.path or _first_text(one.get("path") for one in communicators),
        why=known.why or _first_text(one.get("why") for one in communicators),
        taken=_sums(known.taken, counts, "taken"),
        passed=_sums(known.passed, counts, "passed"),
        chosen={**known.chosen, **_chosen(_list(report.get("choices")))},
    )


def _chosen(choices: Iterable[object]) -> dict[str, str]:
    """Return the tuner's choices of a report; of types that differ in it, that of the last one."""
    found = {}
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        collective, power, by = choice.get("collective"), choice.get("size_class"), choice.get("by")
        if (
            isinstance(collective, str)
            and isinstance(by, str)
            and type(power) is int
            and 0 <= power < _MOST_POWER
        ):
            found[f"{collective[:_MOST_NAME]} 2^{power}"] = by[:_MOST_NAME]
    return found


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _first_text(values: Iterable[object]) -> str | None:
    return next((value[:500] for value in values if isinstance(value, str) and value), None)


def _sums(known: Mapping[str, int], counts: Mapping[str, Any], name: str) -> dict[str, int]:
    found = dict(known)
    for function, count in counts.items():
        number = count.get(name) if isinstance(count, dict) else None
        if type(number) is int and 0 < number < _MOST:
            found[function] = found.get(function, 0) + number
    return found
