"""Read stress-ng: its messages, followed by the YAML of its metrics."""

from __future__ import annotations

import re

from clusterctl.acceptance.model import Parsed, RowFinding, RowMeasurement, RowStatus
from clusterctl.text.foreign import NotUnderstood, decimal, lines
from clusterctl.text.visible import visible

# The file is a list of flat mappings, read line by line: a YAML parser would accept far more than stress-ng writes.
_STRESSOR = re.compile(r"\s{1,8}- stressor: ([a-z0-9-]{1,40})")
_VALUE = re.compile(r"\s{1,8}([a-z0-9-]{1,60}): ([-+.0-9eE]{1,40})\s{0,8}$")
_FAILED = re.compile(r"stress-ng: (?:fail|error): +\[[0-9]{1,10}\] (.{1,300})")
_TOO_SHORT = "run duration too short to determine memory rate"


def _metrics(text: str) -> dict[str, dict[str, float]]:
    """Return the metrics by stressor; raise NotUnderstood without a complete document."""
    found: dict[str, dict[str, float]] = {}
    own: dict[str, float] = {}
    ended = False
    for line in lines(text):
        stressor, value = _STRESSOR.match(line), _VALUE.match(line)
        ended |= line.rstrip() == "..."
        if stressor is not None:
            own = found.setdefault(stressor[1], {})
        elif value is not None and found:
            own[value[1]] = decimal(value[2])
    if not ended or not found:
        raise NotUnderstood("stress-ng's document of metrics is missing or was cut off")
    return found


def _failures(text: str) -> tuple[RowFinding, ...]:
    said = [match[1] for line in lines(text) if (match := _FAILED.match(line))]
    if not said:
        return ()
    more = f" (and {len(said) - 1} more messages)" if len(said) > 1 else ""
    return (RowFinding(RowStatus.FAIL, f"{visible(said[0])}{more}"),)


def memory_rate(text: str) -> Parsed:
    """Return the rates of memory, of ``stress-ng --stream``; raise NotUnderstood without them."""
    if _TOO_SHORT in text:
        why = "stress-ng ended no round of memory copies in its time: the node is far too slow, or busy"
        return Parsed(findings=(RowFinding(RowStatus.FAIL, why),))
    metrics = _metrics(text)
    own = metrics.get("stream", {})
    # Each of them is the mean of the instances.
    fields = {
        "read_mb_per_s": own.get("memory-read-rate-mb-per-sec"),
        "write_mb_per_s": own.get("memory-write-rate-mb-per-sec"),
    }
    found = [
        RowMeasurement(field, value, "MB/s per core", True)
        for field, value in fields.items()
        if value is not None
    ]
    if len(found) != len(fields):
        raise NotUnderstood("stress-ng reports no memory rate; versions before 0.15 do not write it")
    return Parsed(tuple(found), findings=_failures(text))


def verified(text: str) -> Parsed:
    """Return what ``stress-ng --verify`` found wrong; raise NotUnderstood if it did not end by itself."""
    metrics = _metrics(text)
    operations = sum(own.get("bogo-ops", 0.0) for own in metrics.values())
    if not operations > 0:
        raise NotUnderstood("stress-ng did nothing")
    return Parsed(findings=_failures(text))
