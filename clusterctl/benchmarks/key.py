"""Build the key of a result: the settings that two figures must share to be comparable.

One GPU trains ResNet50 at 857 to 2600 images/s depending on precision and memory format alone, so a figure without
these is meaningless. Baselines, comparisons and the results' store all use this key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

FIELDS = (
    *(
        "benchmark",
        "program",
        "library",
        "library_version",
        "launcher",
        "np",
        "nodes",
        "map_by",
        "ranks_per_gpu",
        "gpus_per_process",
    ),
    *("hardware", "torch", "precision", "memory_format", "batch_per_rank", "image_size", "sequence_length"),
    *(
        "optimizer",
        "data",
        "compile",
        "api",
        "hook",
        "bucket_cap_mb",
        "threads",
        "datatype",
        "redop",
        "cuda_graph",
    ),
    "environment",
)
"""The fields of every key, in order; ABSENT if a benchmark lacks the field or it is unknown."""
ABSENT = "-"
GRAPH_IF_FASTER = "if faster"
"""The value of ``cuda_graph`` if calls are timed one by one and in a CUDA graph."""
# Fields with another name in a result's settings; all others have the same name there.
_SETTING = {"batch_per_rank": "batch_size"}
_USUAL = {"api": "ddp", "hook": "none"}
# "0 [0000:00:06] NVIDIA H200" (nccl-tests, collective_core), "0 [cuda:0 NVIDIA H200]" and "cuda:0 NVIDIA H200" (torch).
_DEVICE = re.compile(r"(?:\d+ \[[^\]]*\] (?=\S)|\d+ \[)?(?:cuda:\d+ )?(?P<name>[^\]]*)")
_VERSIONS = {
    "nccl": re.compile(r"(?:^NCCL version |\bnccl )(?P<version>\d[0-9.]*)"),
    "gloo": re.compile(r"\bgloo torch (?P<version>\d\S*)"),
    "ccore": re.compile(r"(?:\bccore |^collective_core version )(?P<version>\d\S*)"),
}


def configuration_key(
    *,
    benchmark: str,
    np: int,
    nodes: int,
    library: str | None,
    library_version: str | None,
    launcher: str | None,
    map_by: str | None = None,
    hardware: str | None,
    settings: Mapping[str, Any],
) -> dict[str, str]:
    """Return the key of one figure, every field of ``FIELDS`` as text.

    ``settings`` are those of ``proof.settings``, which the ranks report as used. ``np``, ``nodes`` and ``map_by``
    (``mapping``) belong to the figure, because a scaling curve has a key for each of its points.
    """
    said: dict[str, Any] = {
        **{field: settings.get(_SETTING.get(field, field)) for field in FIELDS},
        "benchmark": benchmark,
        "np": np,
        "nodes": nodes,
        "library": library,
        "library_version": library_version,
        "launcher": launcher,
        "map_by": map_by,
        "hardware": hardware,
    }
    if "channels_last" in settings:
        said["memory_format"] = "channels_last" if settings["channels_last"] else "contiguous"
    # Left out where they are the usual ones, so that figures from before these options stay comparable.
    for field, usual in _USUAL.items():
        if said[field] == usual:
            said[field] = None
    if str(settings.get("device", "")).startswith("cuda"):
        said["threads"] = None
    return {field: _text(said[field]) for field in FIELDS}


def mapping(node_of_rank: Sequence[str]) -> str | None:
    """Return how ranks are mapped: ``slot`` (node after node) or ``node`` (round-robin); None if both are the same.

    With round-robin both neighbours of every rank are on other nodes, so a ring crosses the network at each step.
    """
    nodes = len(set(node_of_rank))
    if nodes in (0, 1, len(node_of_rank)):
        return None
    begun = 1 + sum(one != other for one, other in pairwise(node_of_rank))
    return "slot" if begun == nodes else "node"


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the fields in which two keys differ, with both values; empty if the figures are comparable."""
    pairs = {field: (one.get(field, ABSENT), other.get(field, ABSENT)) for field in FIELDS}
    return {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}


def hardware_name(devices: Iterable[str], cpus: Iterable[str] = ()) -> str | None:
    """Return the names of the ranks' GPUs, else of the nodes' CPUs; several are joined by ``+``.

    ``devices`` are as the ranks report them (``RankProof.device``).
    """
    names = {match["name"].strip() for device in devices if (match := _DEVICE.match(device))}
    names = {name for name in names if name and not name.lower().startswith("cpu")}
    return " + ".join(sorted(names or set(cpus))) or None


def library_version(library: str | None, lines: Iterable[str]) -> str | None:
    """Return the version of a library that the ranks reported (``proof.library``); None if no rank reported one.

    Several versions in one run, which is a fault of its own, are joined by ``+``.
    """
    if library is None:
        return None
    name = library.partition("+")[0]
    pattern = _VERSIONS.get(name) or re.compile(rf"(?:^|\s){re.escape(name)} (?P<version>\d\S*)")
    found = {match["version"] for line in lines if (match := pattern.search(line))}
    return " + ".join(sorted(found)) or None


def _text(value: object) -> str:
    if value is None or value == "":
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={value[name]}" for name in sorted(value)) or ABSENT
    return str(value)
