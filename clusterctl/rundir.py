"""Read and write the run folder ``runs/<id>/``: one file per stage, written atomically, readable only by its owner."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from clusterctl import json_text, user_files
from clusterctl.errors import ConfigError, ControllerFileError, UsageError
from clusterctl.foreign import NotUnderstood, json_value

LARGEST_BYTES = 1 << 30
"""The largest document of one stage that is read."""
HINT_ROOM = "free space there, or choose another directory with --runs DIR or $CLUSTERCTL_RUNS"
_HINT_OTHERS = "if another user started the run (with sudo?), continue it as that user"


def default_root() -> Path:
    """Return the directory of the run folders: ``$CLUSTERCTL_RUNS``, else ``./runs``."""
    return Path(os.environ.get("CLUSTERCTL_RUNS") or "runs")


@contextlib.contextmanager
def own_file(path: Path, hint: str = HINT_ROOM, *, verb: str = "write") -> Iterator[None]:
    """Turn an OSError in the block into a ControllerFileError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise ControllerFileError(f"cannot {verb} {path}: {on_this_machine(error)}", hint=hint) from error


def on_this_machine(error: OSError) -> str:
    """Return the reason of an error, marked as this machine's: nodes report the same errors of their disks."""
    return f"{error.strerror or error} on this machine"


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace the content of ``path``: a reader, or a crash, finds the old file or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def is_run_folder(path: Path) -> bool:
    """Return whether a directory exists; raise ConfigError if its parent belongs to another user and hides it."""
    return _found(path.is_dir, path)


def _found(look: Callable[[], bool], path: Path) -> bool:
    try:
        return look()
    except OSError as error:
        raise ConfigError(f"cannot access {path}: {error.strerror}", hint=_HINT_OTHERS) from None


@dataclass(frozen=True, slots=True)
class RunDir:
    """Represent one run: ``path`` is its run folder, ``id`` its name (UTC time, verb, four random hex digits)."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, verb: str, root: Path | None = None) -> RunDir:
        """Create a run folder (mode 0700) in ``root``; raise ConfigError if that fails."""
        base = root if root is not None else default_root()
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        path = base / f"{stamp}-{verb}-{secrets.token_hex(2)}"
        with own_file(
            path, "choose another directory with --runs DIR or $CLUSTERCTL_RUNS", verb="create the run folder"
        ):
            base.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, name: str, root: Path | None = None, verb: str | None = None) -> RunDir:
        """Open an existing run by its id or path; ``verb`` restricts it to runs of one command.

        Raise UsageError, with the names of the latest runs, if there is no such run.
        """
        base = root if root is not None else default_root()
        kind = f"-{verb}-" if verb else "-"
        problem = f"there is no run {name!r} in {base}"
        # An empty name, probably an unset variable of a script, would open the parent of all runs.
        for candidate in (base / name, Path(name)) if name else ():
            if is_run_folder(candidate):
                # Resolve a link to a run, or ".": the journals of nodes hold the real name of the run folder.
                real = candidate.resolve()
                if verb is None or kind in real.name:
                    return cls(candidate if candidate.name == real.name else real)
                problem = f"{name} is not a run of '{verb}'"
        known = sorted(entry.name for entry in base.glob(f"*{kind}*") if entry.is_dir())[-5:]
        raise UsageError(
            problem, hint="the latest runs are: " + ", ".join(known) if known else "no run is recorded there"
        )

    def holds(self, name: str) -> bool:
        """Return whether the run has a file of this name; raise ConfigError if that cannot be read."""
        return _found((self.path / name).is_file, self.path / name)

    def file(self, stage: str) -> Path:
        """Return the path of one stage's JSON file."""
        return self.path / f"{stage}.json"

    def write(self, stage: str, document: Mapping[str, Any]) -> Path:
        """Write one stage's file (JSON, UTF-8, indented) atomically and return its path; raise ConfigError."""
        path = self.file(stage)
        text = json_text.indented(document)
        with own_file(path):
            write_atomically(path, text + b"\n")
        return path

    def read(self, stage: str) -> Any:
        """Return one stage's document; raise ConfigError when it is missing or damaged."""
        path = self.file(stage)
        try:
            return json_value(user_files.read(path, LARGEST_BYTES), most_bytes=LARGEST_BYTES)
        except FileNotFoundError:
            raise ConfigError(
                f"run {self.id} has no {stage}.json",
                hint=f"the run ended before the stage {stage!r}; start a new run",
            ) from None
        except NotUnderstood as error:
            raise ConfigError(f"{path} is damaged: {error}", hint="start a new run") from None
        except OSError as error:
            hint = user_files.hint_of(error, _HINT_OTHERS)
            raise ConfigError(f"cannot read {path}: {error.strerror}", hint=hint) from None

    def folder(self, name: str) -> Path:
        """Return a directory in the run folder, for logs for example; create it with mode 0700 if needed."""
        path = self.path / name
        with own_file(path, verb="create"):
            path.mkdir(mode=0o700, exist_ok=True)
        return path
