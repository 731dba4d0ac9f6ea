"""Record a check: each node's scrubbed answers as they arrive, then inventory, verdicts and manifest."""

from __future__ import annotations

import hashlib
import platform
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from clusterctl import __version__
from clusterctl.documents.recording import Manifest, RecordedAnswer, RecordedFailure, RecordedNode
from clusterctl.facts.document import to_document
from clusterctl.facts.gather import RawAnswer
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.recording import model, store
from clusterctl.inventory.model import Inventory, Node
from clusterctl.inventory.recorded import recorded
from clusterctl.text import json_text
from clusterctl.text.secret.scrub import Scrubber, names_a_secret
from clusterctl.transport.base import Failure, HostMap


def _secrets_of(inventory: Inventory) -> Iterator[str]:
    for node in (*inventory.nodes, *inventory.beyond):
        for variables in (node.env, node.container.env):
            yield from (value for name, value in variables.items() if names_a_secret(name))


def as_json(document: Any) -> bytes:
    """Return a document as bytes of JSON, as in the recording's files."""
    return json_text.in_ascii(document, indent=1).encode() + b"\n"


class Recorder:
    """A recording in progress: ``heard`` may be called from many threads, then once ``finish`` or ``discard``."""

    def __init__(self, path: Path, inventory: Inventory) -> None:
        self._writer = store.create(path)
        self._inventory = inventory
        self._values = frozenset(_secrets_of(inventory))
        self._lock = threading.Lock()
        self._files: dict[str, str] = {}
        self._nodes: dict[str, RecordedNode] = {}

    def _add(self, name: str, data: bytes) -> str:
        self._writer.add(name, data)
        with self._lock:
            self._files[name] = hashlib.sha256(data).hexdigest()
        return name

    def heard(self, node: Node, answers: tuple[RawAnswer, ...], refusal: str | None) -> None:
        """Write the answers of one node, without secrets; ``refusal`` is the reason if root was refused."""
        scrubber = Scrubber(self._values)
        kept = []
        for number, raw in enumerate(answers, 1):
            folder = f"nodes/{node.name}"
            out = self._add(f"{folder}/answer-{number}.out", scrubber.data(raw.stdout, raw.nonce))
            err = self._add(f"{folder}/answer-{number}.err", scrubber.data(raw.stderr))
            kept.append(RecordedAnswer(**{**asdict(raw), "stdout": out, "stderr": err}))
        said = None if refusal is None else scrubber.text(refusal)
        found = RecordedNode(
            name=node.name, answers=tuple(kept), refusal=said, scrubbed=dict(scrubber.counts)
        )
        with self._lock:
            self._nodes[node.name] = found

    def finish(
        self,
        facts: HostMap[NodeFacts],
        *,
        earlier: Mapping[str, NodeFacts],
        only: tuple[str, ...] | None,
        skip: tuple[str, ...],
        result: Mapping[str, Any],
    ) -> Counter[str]:
        """Write the rest and return the number of replaced secrets, by kind; ``earlier`` are older facts in use."""
        everywhere = Scrubber(self._values)
        nodes = []
        for name, outcome in facts.items():
            node = self._nodes.get(name) or RecordedNode(name=name)
            if isinstance(outcome, Failure):
                failure = RecordedFailure(
                    kind=outcome.kind.value,
                    message=everywhere.text(outcome.message),
                    hint=None if outcome.hint is None else everywhere.text(outcome.hint),
                )
                node = node.model_copy(update={"failure": failure})
            nodes.append(node)
        self._add(model.INVENTORY, as_json(everywhere.value(recorded(self._inventory))))
        self._add(model.REPORT, as_json(everywhere.value(dict(result))))
        older = {name: everywhere.value(to_document(found)) for name, found in earlier.items()}
        self._add(model.EARLIER, as_json(older))
        self._add(model.SCRUBBED, _told(nodes, everywhere.counts).encode())
        manifest = Manifest(
            clusterctl=__version__,
            python=platform.python_version(),
            recorded_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            only=only,
            skip=skip,
            nodes=tuple(nodes),
            files=dict(sorted(self._files.items())),
        )
        self._writer.add(model.MANIFEST, as_json(manifest.document()))
        self._writer.close()
        return sum((Counter(node.scrubbed) for node in nodes), Counter(everywhere.counts))

    def discard(self) -> None:
        """Remove the written files, because the check did not finish."""
        self._writer.discard()


def _told(nodes: list[RecordedNode], elsewhere: Mapping[str, int]) -> str:
    """Return the text that lists what was replaced in the recording, and what was not."""
    lines = [
        "Secrets were replaced by stars of the same length. Found and replaced:",
        "",
        *(
            f"{node.name}: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(node.scrubbed.items()))
            for node in nodes
            if any(node.scrubbed.values())
        ),
    ]
    if any(elsewhere.values()):
        found = ", ".join(f"{count} x {kind}" for kind, count in sorted(elsewhere.items()) if count)
        lines.append(f"inventory, report and earlier facts: {found}")
    if len(lines) == 2:
        lines.append("nothing")
    lines += [
        "",
        "The recording still holds names, addresses, users, public keys, serial numbers and package lists.",
        "Look through nodes/ before you share it: a secret without a telling name or form is not recognised.",
    ]
    return "\n".join(lines) + "\n"
