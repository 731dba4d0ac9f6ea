"""Find the mounts with which this process's Python runs in a container, at the same paths."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from clusterctl.errors import LabError, UsageError


@dataclass(frozen=True, slots=True)
class BindMount:
    """A bind mount of a directory or file of this machine."""

    source: str
    target: str
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> BindMount:
        """Read ``HOST:GUEST[:ro]``; raise UsageError for anything else, or when HOST does not exist."""
        parts = text.split(":")
        if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] not in ("ro", "rw")):
            raise UsageError(f"{text!r} is not a mount", hint="write HOST:GUEST or HOST:GUEST:ro")
        source, target = Path(parts[0]).expanduser().absolute(), parts[1]
        if not source.exists():
            raise UsageError(f"the mount's source {source} does not exist", hint="write HOST:GUEST[:ro]")
        if not target.startswith("/") or target == "/":
            raise UsageError(f"the mount's target {target!r} is not an absolute path below /")
        return cls(str(source), target, len(parts) == 3 and parts[2] == "ro")


def for_this_python() -> tuple[BindMount, ...]:
    """Return read-only mounts of the running interpreter: its prefix, and its base Python's."""
    executable = Path(sys.executable)
    if not executable.is_file():
        raise LabError(
            "the running Python does not know its own path", hint="run it from a virtual environment"
        )
    base = Path(sys.base_prefix)
    # A system Python's prefix is /usr: that would hide the container's own, so only its library is mounted.
    libraries = [Path(sysconfig.get_path("stdlib"))] if base == Path("/usr") else [base]
    folders = _outermost([Path(sys.prefix), *libraries] if Path(sys.prefix) != Path("/usr") else libraries)
    files = [
        link for link in _links(executable) if not any(link.is_relative_to(folder) for folder in folders)
    ]
    return tuple(BindMount(str(path), str(path), read_only=True) for path in (*folders, *files))


def _outermost(folders: Iterable[Path]) -> list[Path]:
    unique = sorted(set(folders), key=lambda folder: len(folder.parts))
    kept: list[Path] = []
    for folder in unique:
        if not any(folder.is_relative_to(other) for other in kept):
            kept.append(folder)
    return kept


def _links(path: Path) -> list[Path]:
    """Return the path and every symbolic link on the way to the file itself."""
    found = [path]
    while path.is_symlink() and len(found) < 40:
        path = path.parent / path.readlink()
        found.append(path)
    return found
