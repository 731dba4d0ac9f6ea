"""Storage of recordings: a directory or one compressed tar file, whose members are written once and read whole."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import threading
from pathlib import Path, PurePosixPath
from typing import Protocol

from clusterctl.errors import ConfigError
from clusterctl.inventory.user_paths import is_file, is_folder
from clusterctl.rundir import own_file, write_atomically
from clusterctl.text import user_files

LARGEST_BYTES = 512 << 20
"""Maximum size of a recording's members; a larger one is an attack on the user who replays it."""
_HINT_ROOM = "free space there, or record to another path"
_TAR_NAMES = (".tar.gz", ".tgz")


class Writer(Protocol):
    """Writes the members of a new recording; ``add`` may be called from several threads."""

    def add(self, name: str, data: bytes) -> None:
        """Write one member; raise ConfigError if that fails."""

    def close(self) -> None:
        """Complete the recording."""

    def discard(self) -> None:
        """Remove the written members, because the recording did not finish."""


def is_tar(path: Path) -> bool:
    """Return whether the path names a tar file rather than a directory."""
    return path.name.endswith(_TAR_NAMES)


def create(path: Path) -> Writer:
    """Start a recording; raise ConfigError if the path exists already or cannot be created."""
    if os.path.lexists(path):
        raise ConfigError(
            f"{path} exists already", hint="name a directory or .tar.gz that does not exist yet"
        )
    if not is_folder(path.parent):
        raise ConfigError(f"{path.parent} is not a directory", hint="create it first")
    with own_file(path, "choose another path"):
        return TarWriter(path) if is_tar(path) else FolderWriter(path)


class FolderWriter:
    """Writes a directory of mode 0700 with files of mode 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._made: list[Path] = []
        path.mkdir(mode=0o700)

    def add(self, name: str, data: bytes) -> None:
        target = self._path / name
        with own_file(target, _HINT_ROOM):
            with self._lock:
                for folder in reversed(PurePosixPath(name).parents):
                    (self._path / folder).mkdir(mode=0o700, exist_ok=True)
                self._made.append(target)
            write_atomically(target, data, mode=0o600)

    def close(self) -> None:
        pass

    def discard(self) -> None:
        # Removal fails on a broken or read-only disk; the error that led to it is the one to report.
        with contextlib.suppress(OSError):
            for file in self._made:
                file.unlink(missing_ok=True)
            folders = {
                parent for file in self._made for parent in file.parents if self._path in parent.parents
            }
            for folder in (*sorted(folders, key=lambda p: len(p.parts), reverse=True), self._path):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()


class TarWriter:
    """Writes one tar file of mode 0600, atomically at the end; equal members give equal bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._members: dict[str, bytes] = {}
        path.touch(mode=0o600, exist_ok=False)

    def add(self, name: str, data: bytes) -> None:
        with self._lock:
            # Compressed immediately, because the answers of a thousand nodes are tens of megabytes.
            self._members[name] = gzip.compress(data, 1, mtime=0)

    def close(self) -> None:
        buffer = io.BytesIO()
        root = self._path.name.removesuffix(".gz").removesuffix(".tgz").removesuffix(".tar")
        with (
            gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w") as tar,
        ):
            for name, packed in sorted(self._members.items()):
                data = gzip.decompress(packed)
                info = tarfile.TarInfo(f"{root}/{name}")
                info.size, info.mode = len(data), 0o600
                tar.addfile(info, io.BytesIO(data))
        with own_file(self._path, _HINT_ROOM):
            write_atomically(self._path, buffer.getvalue(), mode=0o600)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def damaged(path: Path, why: str) -> ConfigError:
    """Return the error for a path that is not a recording, or an incomplete one."""
    return ConfigError(
        f"{path} is not a complete recording: {why}",
        hint="`clusterctl check --record DIR` writes a recording; request it again, as a .tar.gz",
    )


class RecordingReader:
    """Reads the members of a recording by name, without unpacking anything to disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._members = self._of_tar() if is_file(path) else None
        if self._members is None and not is_folder(path):
            raise ConfigError(f"recording {path} not found", hint="name a directory or a .tar.gz file")

    def read(self, name: str) -> bytes:
        """Return one member's bytes; raise ConfigError if it is missing or cannot be read."""
        if self._members is not None:
            if name not in self._members:
                raise damaged(self._path, f"it has no {name}")
            return self._members[name]
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise damaged(self._path, f"{name!r} is outside of the recording")
        target = self._path / name
        try:
            if target.is_symlink():
                raise damaged(self._path, f"{name} is a link")
            return user_files.read(target, LARGEST_BYTES)
        except FileNotFoundError:
            raise damaged(self._path, f"it has no {name}") from None
        except OSError as error:
            raise damaged(self._path, f"{name}: {error.strerror}") from error

    def _of_tar(self) -> dict[str, bytes]:
        members: dict[str, bytes] = {}
        left = LARGEST_BYTES
        try:
            with user_files.opened(self._path) as file, tarfile.open(fileobj=file, mode="r:*") as tar:
                for info in tar:
                    stream = tar.extractfile(info) if info.isreg() else None
                    if stream is None:
                        continue
                    left -= info.size
                    if left < 0:
                        raise damaged(self._path, f"it holds more than {LARGEST_BYTES} bytes")
                    members[info.name.removeprefix("./").partition("/")[2] or info.name] = stream.read()
        except (tarfile.TarError, EOFError, OSError, gzip.BadGzipFile) as error:
            # For a file in another format tarfile lists all formats that it tried, on many lines.
            why = str(error).partition(":\n")[0]
            none = not why or "could not be opened" in why
            raise damaged(self._path, "it is not a tar file" if none else why) from None
        return members
