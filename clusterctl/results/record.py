"""One stored run: the whole document, and the columns by which runs are found and told apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

# 20261122T015714Z-bench-1a2b, as clusterctl.rundir names runs.
_STAMP = re.compile(r"^(\d{8}T\d{6}Z)-")
# What stands before a GPU's name in nccl-tests' lines: its index and its PCI address.
_PLACE = re.compile(r"^\s*(?:\d+\s+)?(?:\[[0-9a-fA-F:.]+\]\s+)?")
_CUDA = re.compile(r"^cuda:\d+\s+")
HIGH = "busbw_gbps"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a list of runs shows of one. ``figure`` is its one number, in ``unit``: the highest busbw in GB/s of
    a collective, images (or sequences) per second of a training at its largest number of ranks."""

    run: str
    started_at: str
    """RFC 3339, UTC, whole seconds."""
    benchmark: str
    library: str | None
    launcher: str | None
    np: int | None
    nodes: int | None
    status: str
    key: str | None
    """The text form of what makes two results comparable; None: recorded without one."""
    hardware: str | None
    figure: float | None
    unit: str | None
    versions: tuple[str, ...] = ()
    clusterctl_version: str | None = None
    folder: str | None = None
    """The run folder, as it was when the run ended."""


@dataclass(frozen=True, slots=True)
class Record:
    """A summary, the document that ``bench --json`` printed, and the command lines that were run."""

    summary: Summary
    document: Mapping[str, Any]
    commands: tuple[str, ...] = field(default=())


def started_at(run: str) -> str:
    """Return when a run began, from its id, in RFC 3339; now, when the id does not say it."""
    match = _STAMP.match(run)
    moment = datetime.now(timezone.utc)
    if match is not None:
        try:
            moment = datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
        except ValueError:
            pass  # digits that are no date
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def device_name(device: str) -> str:
    """Return a rank's device without its place: ``0 [0000:00:07] NVIDIA H200`` -> ``NVIDIA H200``."""
    return _PLACE.sub("", _CUDA.sub("", device.strip())).strip() or device.strip()


def hardware_of(ranks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the ranks ran on: ``4x NVIDIA H200``; None when no rank reported."""
    devices = Counter(device_name(str(rank.get("device") or "unknown")) for rank in ranks)
    return ", ".join(f"{count}x {name}" for name, count in devices.most_common()) or None


def _figure(document: Mapping[str, Any]) -> tuple[float | None, str | None]:
    points = document.get("points") or ()
    if points:
        last = max(points, key=lambda point: int(point["np"]))
        for name, unit in (("images_per_s", "images/s"), ("sequences_per_s", "sequences/s")):
            if last.get(name) is not None:
                return float(last[name]), unit
    speeds = [row[HIGH] for row in document.get("rows") or () if row.get(HIGH) is not None]
    return (float(max(speeds)), "GB/s") if speeds else (None, None)


def _size(document: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the ranks and nodes of the largest launch that reported."""
    points = document.get("points") or ()
    if points:
        last = max(points, key=lambda point: int(point["np"]))
        return int(last["np"]), int(last["nodes"])
    ranks = (document.get("proof") or {}).get("ranks") or ()
    return (len(ranks), len({rank.get("host") for rank in ranks})) if ranks else (None, None)


def _versions(proof: Mapping[str, Any]) -> tuple[str, ...]:
    found = [str(line) for line in proof.get("library") or ()]
    torch = (proof.get("settings") or {}).get("torch")
    return tuple(dict.fromkeys([*found, *([f"torch {torch}"] if torch else [])]))


def from_document(
    document: Mapping[str, Any],
    *,
    key: str | None = None,
    clusterctl_version: str | None = None,
    commands: Sequence[str] = (),
    folder: str | None = None,
) -> Record:
    """Return the record of one ``clusterctl.bench/1`` document; KeyError or TypeError when it is none."""
    proof = document.get("proof") or {}
    figure, unit = _figure(document)
    np, nodes = _size(document)
    summary = Summary(
        run=str(document["run"]),
        started_at=started_at(str(document["run"])),
        benchmark=str(document["benchmark"]),
        library=document["library"],
        launcher=document["launcher"],
        np=np,
        nodes=nodes,
        status=str(document["status"]),
        key=key,
        hardware=hardware_of(proof.get("ranks") or ()),
        figure=figure,
        unit=unit,
        versions=_versions(proof),
        clusterctl_version=clusterctl_version,
        folder=folder,
    )
    return Record(summary, document, tuple(commands))
