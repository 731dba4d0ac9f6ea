"""The run folder ``runs/<id>/``: one file per stage, written whole or not at all, readable by its owner only."""

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

STAGES = ("inventory", "facts", "plan", "apply", "artifacts", "launch", "results", "report")
LARGEST_BYTES = 1 << 30
"""The largest document of one stage that is read back."""
HINT_ROOM = "make room there, or choose another place with --runs DIR or $CLUSTERCTL_RUNS"
_HINT_OTHERS = "if somebody else started the run (with sudo?), go on with it as they"


def default_root() -> Path:
    """Return the folder that holds run folders: ``$CLUSTERCTL_RUNS``, else ``./runs``."""
    return Path(os.environ.get("CLUSTERCTL_RUNS") or "runs")


@contextlib.contextmanager
def own_file(path: Path, hint: str = HINT_ROOM, *, verb: str = "write") -> Iterator[None]:
    """Turn what the file system refuses in the block into a ControllerFileError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise ControllerFileError(f"cannot {verb} {path}: {on_this_machine(error)}", hint=hint) from error


def on_this_machine(error: OSError) -> str:
    """Return why a file here cannot be written, marked as this machine's: nodes report the same errors of theirs."""
    return f"{error.strerror or error} on this machine"


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace ``path`` by ``data`` so that a reader, or a crash, sees the old file or the new one."""
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
    """Whether there is a folder; ConfigError where nobody can tell, as below one that belongs to somebody else."""
    return _found(path.is_dir, path)


def _found(look: Callable[[], bool], path: Path) -> bool:
    try:
        return look()
    except OSError as error:
        raise ConfigError(f"cannot look at {path}: {error.strerror}", hint=_HINT_OTHERS) from None


LARGEST_BYTES = 256 << 20
"""A run folder's document of more bytes was not written by clusterctl."""


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run: ``path`` is its folder, ``id`` the folder's name (UTC time, verb, four random hex digits)."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, verb: str, root: Path | None = None) -> RunDir:
        """Make a new run folder (mode 0700) below ``root``; raise ConfigError when that is impossible."""
        base = root if root is not None else default_root()
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        path = base / f"{stamp}-{verb}-{secrets.token_hex(2)}"
        with own_file(
            path, "choose another place with --runs DIR or $CLUSTERCTL_RUNS", verb="make the run folder"
        ):
            base.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
        return cls(path)

    @classmethod
    def open(cls, name: str, root: Path | None = None, verb: str | None = None) -> RunDir:
        """Open an existing run, of a verb if one is given, by its id or its path.

        Raise UsageError naming the runs that there are.
        """
        base = root if root is not None else default_root()
        kind = f"-{verb}-" if verb else "-"
        problem = f"there is no run {name!r} in {base}"
        # No name at all, a script's unset variable most likely, would be the folder of all runs.
        for candidate in (base / name, Path(name)) if name else ():
            if is_run_folder(candidate):
                # A link to a run, or "." in its folder, is that run: nodes know it by the folder's name.
                real = candidate.resolve()
                if verb is None or kind in real.name:
                    return cls(candidate if candidate.name == real.name else real)
                problem = f"{name} is no run of '{verb}'"
        known = sorted(entry.name for entry in base.glob(f"*{kind}*") if entry.is_dir())[-5:]
        raise UsageError(
            problem, hint="the latest are: " + ", ".join(known) if known else "none has been recorded there"
        )

    def holds(self, name: str) -> bool:
        """Whether the run has a file of this name; ConfigError where that cannot be told."""
        return _found((self.path / name).is_file, self.path / name)

    def file(self, stage: str) -> Path:
        """Return the path of one stage's JSON file."""
        return self.path / f"{stage}.json"

    def write(self, stage: str, document: Mapping[str, Any]) -> Path:
        """Write one stage's file (JSON, UTF-8, indented) atomically and return its path; ConfigError if it cannot."""
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
                hint=f"it did not get as far as the stage {stage!r}; start a new run",
            ) from None
        except NotUnderstood as error:
            raise ConfigError(f"{path} is damaged: {error}", hint="start a new run") from None
        except OSError as error:
            hint = user_files.hint_of(error, _HINT_OTHERS)
            raise ConfigError(f"cannot read {path}: {error.strerror}", hint=hint) from None

    def folder(self, name: str) -> Path:
        """Return (and make, mode 0700) a folder inside the run, for logs and the like."""
        path = self.path / name
        with own_file(path, verb="make"):
            path.mkdir(mode=0o700, exist_ok=True)
        return path
