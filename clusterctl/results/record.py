"""One stored run: the whole document, and the columns by which runs are found and distinguished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from clusterctl import model_errors, run_ids
from clusterctl.benchmarks.key import hardware_name
from clusterctl.documents.proof import Proof
from clusterctl.wording import counted

HIGH = "busbw_gbps"
# A larger value is not a number of ranks, and may not fit into a database column.
_MOST_RANKS = 1 << 31


@dataclass(frozen=True, slots=True)
class Summary:
    """One run in a list.

    ``library`` names the libraries of all its variants. ``figure`` is its main figure, in ``unit``: the highest
    busbw in GB/s of a collective, images (or sequences) per second of a training at its largest number of ranks.
    """

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
    """The key of the largest number of ranks (``key_text``); None: no figure, or recorded without one."""
    hardware: str | None
    figure: float | None
    unit: str | None
    versions: tuple[str, ...] = ()
    clusterctl_version: str | None = None
    folder: str | None = None
    """The path of the run folder when the run ended."""
    label: str | None = None

    @property
    def where(self) -> str:
        """The numbers of ranks and nodes, in words."""
        if self.np is None:
            return "no rank started"
        return f"{counted(self.np, 'rank')} on {counted(self.nodes or 0, 'node')}"


@dataclass(frozen=True)
class Record:
    """A summary, the document that ``bench --json`` printed, and the command lines that were run."""

    summary: Summary
    document: Mapping[str, Any]
    commands: tuple[str, ...] = field(default=())

    @cached_property
    def proof(self) -> Proof:
        """Return ``proof`` of the document; ValueError for a damaged one."""
        return proof_of(self.document)


def proof_of(part: Mapping[str, Any]) -> Proof:
    """Return ``proof`` of a stored document or of one of its variants; ValueError for a damaged one."""
    try:
        return Proof.model_validate(part.get("proof") or {})
    except ValidationError as error:
        raise ValueError(f"proof: {model_errors.first(error)}") from None


def started_at(run: str) -> str:
    """Return the start of a run from its id, in RFC 3339; the current time if the id has none."""
    moment = run_ids.started_at(run) or datetime.now(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def key_text(key: Mapping[str, str]) -> str:
    """Return a key as text for lookups: JSON with the fields in the key's own order."""
    return json.dumps(dict(key), separators=(",", ":"), allow_nan=False)


def _figure(document: Mapping[str, Any]) -> tuple[float | None, str | None]:
    points = document.get("points") or ()
    if points:
        last = max(points, key=lambda point: int(point["np"]))
        for name, unit in (("images_per_s", "images/s"), ("sequences_per_s", "sequences/s")):
            if last.get(name) is not None:
                return float(last[name]), unit
    speeds = [row[HIGH] for row in document.get("rows") or () if row.get(HIGH) is not None]
    return (float(max(speeds)), "GB/s") if speeds else (None, None)


def _size(proof: Proof, key: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the ranks and nodes of the largest launch that reported."""
    if key:
        np, nodes = int(key["np"]), int(key["nodes"])
        if max(np, nodes) >= _MOST_RANKS:
            raise ValueError(f"{np} ranks on {nodes} nodes"[:80])
        return np, nodes
    ranks = proof.ranks or ()
    return (len(ranks), len({rank.host for rank in ranks})) if ranks else (None, None)


def _versions(proof: Proof) -> tuple[str, ...]:
    torch = (proof.settings or {}).get("torch")
    return tuple(dict.fromkeys([*(proof.library or ()), *([f"torch {torch}"] if torch else [])]))


def _libraries(document: Mapping[str, Any]) -> object:
    """Return the library of a run; those of all variants are joined by ``, ``."""
    found = dict.fromkeys(one.get("library") for one in document.get("variants") or ())
    return ", ".join(str(name) for name in found if name is not None) or document["library"]


def _word(value: object) -> str | None:
    """Return the text for a column; TypeError for any other value."""
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"expected text, not {value!r:.60}")


def from_document(
    document: Mapping[str, Any],
    *,
    commands: Sequence[str] = (),
    folder: str | None = None,
    label: str | None = None,
) -> Record:
    """Return the record of a ``clusterctl.bench/1`` document; KeyError, TypeError or ValueError if it is invalid."""
    proof = proof_of(document)
    figure, unit = _figure(document)
    keys = proof.keys or {}
    key = keys[max(keys, key=int)] if keys else {}
    np, nodes = _size(proof, key)
    summary = Summary(
        run=str(document["run"]),
        started_at=started_at(str(document["run"])),
        benchmark=str(document["benchmark"]),
        library=_word(_libraries(document)),
        launcher=_word(document["launcher"]),
        np=np,
        nodes=nodes,
        status=str(document["status"]),
        key=key_text(key) if key else None,
        hardware=proof.hardware or hardware_name(rank.device for rank in proof.ranks or ()),
        figure=figure,
        unit=unit,
        versions=_versions(proof),
        clusterctl_version=proof.clusterctl_version,
        folder=folder,
        label=label,
    )
    return Record(summary, document, tuple(commands))
