"""Replay a recording: parse its answers into facts without any node, and return the recorded verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clusterctl.documents.recording import Manifest, RecordedNode
from clusterctl.errors import ConfigError, FactsError
from clusterctl.facts.document import from_document
from clusterctl.facts.gather import RawAnswer, understand
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.recording import model
from clusterctl.facts.recording.store import LARGEST_BYTES, RecordingReader, damaged
from clusterctl.inventory.model import Inventory
from clusterctl.text import model_errors
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.transport.base import Failure, FailureKind, HostMap, TransportError


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording that was read and verified."""

    inventory: Inventory
    facts: HostMap[NodeFacts]
    earlier: Mapping[str, NodeFacts]
    only: tuple[str, ...] | None
    skip: tuple[str, ...]
    result: Mapping[str, Any]
    """The check's result document at the time of recording."""
    version: str
    """The version of clusterctl that wrote the recording."""


def read(path: Path) -> Recording:
    """Read a recording; raise ConfigError if it is damaged, of another version, or not a recording."""
    reader = RecordingReader(path)
    manifest = _manifest(path, reader)
    for name, digest in manifest.files.items():
        if hashlib.sha256(reader.read(name)).hexdigest() != digest:
            raise damaged(path, f"{name} was changed after the recording")
    try:
        inventory = Inventory.model_validate_json(reader.read(model.INVENTORY))
        older = {name: from_document(found) for name, found in _json(path, reader, model.EARLIER).items()}
        outcomes = {node.name: _outcome(path, reader, node) for node in manifest.nodes}
    except ValidationError as error:
        raise damaged(path, f"{model.INVENTORY}: {model_errors.first(error)}") from None
    except FactsError as error:
        raise damaged(path, f"{model.EARLIER}: {error.message}") from None
    if list(outcomes) != [node.name for node in inventory.nodes]:
        raise damaged(path, "its nodes differ from those of its inventory")
    return Recording(
        inventory,
        HostMap(outcomes),
        older,
        manifest.only,
        manifest.skip,
        _json(path, reader, model.REPORT),
        manifest.clusterctl,
    )


def _json(path: Path, reader: RecordingReader, name: str) -> Any:
    try:
        found = json_value(reader.read(name), most_bytes=LARGEST_BYTES)
    except NotUnderstood as error:
        raise damaged(path, f"{name}: {error}") from None
    if not isinstance(found, dict):
        raise damaged(path, f"{name} must hold a JSON object")
    return found


def _manifest(path: Path, reader: RecordingReader) -> Manifest:
    document = _json(path, reader, model.MANIFEST)
    schema = document.get("schema")
    if schema != Manifest.schema_name():
        raise ConfigError(
            f"{path} has the recording schema {schema!r}; this version of clusterctl reads {Manifest.schema_name()}",
            hint=f"replay it with clusterctl {document.get('clusterctl', '?')}, which recorded it",
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise damaged(path, f"{model.MANIFEST}: {model_errors.first(error)}") from None


def _outcome(path: Path, reader: RecordingReader, node: RecordedNode) -> NodeFacts | Failure:
    if node.failure is not None:
        kinds = {kind.value: kind for kind in FailureKind}
        kind = kinds.get(node.failure.kind, FailureKind.ERROR)
        return Failure(kind, node.failure.message, node.failure.hint)
    if not node.answers:
        raise damaged(path, f"{node.name} has neither an answer nor a failure")
    answers = [
        RawAnswer(**{**dict(raw), "stdout": reader.read(raw.stdout), "stderr": reader.read(raw.stderr)})
        for raw in node.answers
    ]
    try:
        return understand(node.name, answers, root_refusal=node.refusal)
    except TransportError as error:
        return error.failure
