"""Read fio's JSON: the rates of sequential writes and reads, and of random reads."""

from __future__ import annotations

from typing import Any

from clusterctl.acceptance.model import MOST_JSON_BYTES, Parsed, RowMeasurement
from clusterctl.text.foreign import NotUnderstood, json_value, lines
from clusterctl.text.visible import visible

NO_ROOM = "clusterctl: no room: "
"""What the script prints instead of running fio."""
_FILESYSTEM = "clusterctl: filesystem "
# Of each job: the field, where fio has it, its divisor and its unit.
_JOBS = {
    "write": ("write_mb_per_s", "write", "bw_bytes", 1e6, "MB/s"),
    "read": ("read_mb_per_s", "read", "bw_bytes", 1e6, "MB/s"),
    "randread": ("randread_iops", "read", "iops", 1.0, "IOPS"),
}


def parse(text: str) -> Parsed:
    """Return the rates; raise NotUnderstood for output without all jobs, or with a job that reports an error."""
    filesystem = ""
    for line in lines(text):
        if line.startswith(NO_ROOM):
            return Parsed(not_run=visible(line.removeprefix(NO_ROOM))[:200])
        if line.startswith(_FILESYSTEM):
            filesystem = f"disk with {visible(line.removeprefix(_FILESYSTEM))[:40]}"
    # fio writes warnings to its standard output, before the document.
    start = text.find("\n{") + 1 if not text.startswith("{") else 0
    document = json_value(text[start:], most_bytes=MOST_JSON_BYTES)
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise NotUnderstood("fio wrote a document without jobs")
    found = {str(job.get("jobname")): job for job in jobs}
    measurements = tuple(_measured(name, found.get(name), filesystem) for name in _JOBS)
    return Parsed(measurements, version=visible(str(document.get("fio version", "")))[:40])


def _measured(name: str, job: dict[str, Any] | None, filesystem: str) -> RowMeasurement:
    field, direction, key, divisor, unit = _JOBS[name]
    if job is None:
        raise NotUnderstood(f"fio did not run the job {name}")
    error = job.get("error")
    if error != 0:
        raise NotUnderstood(f"fio's job {name} reports the error {visible(str(error))[:40]}")
    values = job.get(direction)
    value = values.get(key) if isinstance(values, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise NotUnderstood(f"fio's job {name} measured nothing")
    return RowMeasurement(field, value / divisor, unit, True, "", filesystem)
