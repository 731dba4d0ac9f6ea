"""Record on this machine what a distribution left on nodes, for the next distribution to remove it.

A node that dies keeps keys, directory and archive until it is back, and a controller that is killed removes nothing.
So every distribution records its nodes before it touches them, and removes each from the record when it is clean. The
record is locked while its distribution runs: one that can be locked belongs to no running distribution.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from clusterctl.errors import ImageError
from clusterctl.images.distribution import archive as archives
from clusterctl.inventory.model import Node
from clusterctl.text.foreign import json_value


def _folder() -> Path:
    return archives.folder().with_name("distributions")


def _where(node: Node) -> str:
    return f"{node.name} {node.address}:{node.port or 22}"


@dataclass(slots=True)
class Note:
    """One distribution's note, locked. ``sha256`` is the archive's, once there is one."""

    token: str
    nodes: set[str]
    _file: IO[str]
    _path: Path
    sha256: str | None = None
    _clean: set[str] = field(default_factory=set)

    def has(self, node: Node) -> bool:
        """Whether this node must still be cleaned."""
        return _where(node) in self.nodes

    def cleaned(self, node: Node) -> None:
        """Cross a node off; threads may call it at the same time."""
        self._clean.add(_where(node))

    def write(self) -> None:
        """Write the note to its file."""
        self._file.seek(0)
        self._file.truncate()
        json.dump({"token": self.token, "sha256": self.sha256, "nodes": sorted(self.nodes)}, self._file)
        self._file.flush()

    def close(self) -> None:
        """Unlock the note, and remove it if all its nodes are clean."""
        self.nodes -= self._clean
        if self.nodes:
            self.write()
        else:
            self._path.unlink(missing_ok=True)
        self._file.close()


def begin(token: str, nodes: Sequence[Node]) -> Note:
    """Write the note of a distribution before it changes nodes; raise ImageError if that fails."""
    path = _folder() / f"{token}.json"
    try:
        _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        file = path.open("w+", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)
        note = Note(token, {_where(node) for node in nodes}, file, path)
        note.write()
    except OSError as error:
        raise ImageError(
            f"{path} cannot be written: {error.strerror}",
            hint="free space there, or point $XDG_CACHE_HOME at another disk",
        ) from None
    return note


@contextlib.contextmanager
def left_by_others(nodes: Collection[Node]) -> Iterator[tuple[Note, ...]]:
    """Yield the notes of ended distributions that left something on one of these nodes."""
    found: list[Note] = []
    try:
        for path in sorted(_folder().glob("*.json")):
            note = _locked(path)
            if note is not None and any(note.has(node) for node in nodes):
                found.append(note)
            elif note is not None:
                note._file.close()
        yield tuple(found)
    finally:
        for note in found:
            note.close()


def _locked(path: Path) -> Note | None:
    """Return a note, locked; None while its distribution runs, and for a missing or incomplete note."""
    try:
        file = path.open("r+", encoding="utf-8")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        said = json_value(file.read())
        return Note(str(said["token"]), set(said["nodes"]), file, path, said["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        file.close()
        return None
