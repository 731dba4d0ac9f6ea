"""Facts of nodes from earlier runs, read from the run folders on first use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from clusterctl.errors import FactsError
from clusterctl.facts.document import from_document
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.inventory.user_paths import is_file
from clusterctl.text import user_files
from clusterctl.text.foreign import NotUnderstood, json_value

RUNS_LOOKED_AT = 8
"""Number of newest runs with facts that are searched; older runs are ignored."""
LARGEST_BYTES = 256 << 20
_RUN = re.compile(r"\d{8}T\d{6}Z-(?:check|bootstrap)-[0-9a-f]{4}")


class EarlierFacts(Mapping[str, NodeFacts]):
    """The newest facts of each node, by name and address, from the earlier runs in a directory.

    A run is ignored if it is damaged, if a version with other facts wrote it, or if it probed fewer subjects than
    the current run.
    """

    def __init__(
        self, runs: Path, nodes: Iterable[Node], *, present: str, subjects: frozenset[str] | None = None
    ) -> None:
        """Search ``runs``, without ``present`` (the current run); ``subjects`` are the subjects that it probes."""
        self._root, self._present = runs, present
        self._subjects = subjects
        self._addresses = {node.name: node.address for node in nodes}
        self._documents: dict[str, dict[str, Any]] = {}
        self.used: dict[str, NodeFacts] = {}
        """Facts that were requested and found."""

    def __getitem__(self, name: str) -> NodeFacts:
        if name in self.used:
            return self.used[name]
        if name not in self._addresses:
            raise KeyError(name)
        for run in self._runs:
            document = self._facts(run).get(name)
            if document is not None:
                try:
                    self.used[name] = from_document(document)
                except FactsError:
                    continue
                return self.used[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._addresses if self.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _runs(self) -> list[str]:
        try:
            names = sorted((p.name for p in self._root.iterdir() if _RUN.fullmatch(p.name)), reverse=True)
        except OSError:
            return []
        recorded = (n for n in names if n != self._present and is_file(self._root / n / "facts.json"))
        return [name for name, _ in zip(recorded, range(RUNS_LOOKED_AT), strict=False)]

    def _facts(self, run: str) -> dict[str, Any]:
        """Return the documents of one run's facts, for nodes whose address has not changed since."""
        if run not in self._documents:
            facts = _read(self._root / run / "facts.json")
            nodes = facts.get("nodes") if self._tells_enough(facts.get("subjects")) else None
            inventory = _read(self._root / run / "inventory.json").get("nodes")
            there = {
                node.get("name"): node.get("address")
                for node in (inventory if isinstance(inventory, list) else [])
                if isinstance(node, dict)
            }
            self._documents[run] = {
                name: document
                for name, document in (nodes if isinstance(nodes, dict) else {}).items()
                if isinstance(document, dict)
                and "error" not in document
                and there.get(name) is not None
                and there[name] == self._addresses.get(name)
            }
        return self._documents[run]

    def _tells_enough(self, asked: object) -> bool:
        """Return whether a run with these subjects (None: all) covers the subjects of the current run."""
        if asked is None:
            return True
        return (
            isinstance(asked, list) and self._subjects is not None and self._subjects <= set(map(str, asked))
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json_value(user_files.read(path, LARGEST_BYTES), most_bytes=LARGEST_BYTES)
    except (OSError, NotUnderstood):
        return {}
    return document if isinstance(document, dict) else {}
