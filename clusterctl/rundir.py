"""Read and write the run folder ``runs/<id>/``: one file per stage, written atomically, readable only by its owner."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterctl import run_ids
from clusterctl.documents.runs import RunLabel
from clusterctl.errors import ConfigError, ControllerFileError, UsageError
from clusterctl.text import json_text, user_files
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.visible import ACTING_IN_A_LINE

LARGEST_BYTES = 1 << 30
"""The largest document of one stage that is read."""
LABEL = "label"
ERROR = "error"
"""The stage whose file holds the error (``clusterctl.error/1``) that ended a run before its result was written."""
LABEL_CHARACTERS = 100
HINT_OTHER = "choose another directory with --runs DIR or $CLUSTERCTL_RUNS"
HINT_ROOM = f"free space there, or {HINT_OTHER}"
_HINT_OTHERS = "if another user started the run (with sudo?), continue it as that user"


LAB_FOLDER = ".clusterctl-lab"
"""The directory that ``lab up`` makes; its runs belong to the directory in which the lab was started."""
_FOLDER = "runs"
_INVENTORY = "inventory.yaml"
_MARKS = frozenset({"index.sqlite", "baselines"})


def default_root(inventory: Path | None = None) -> Path:
    """Return the directory of the run folders: ``$CLUSTERCTL_RUNS``, else ``runs`` beside the inventory's file.

    Without an ``inventory`` that is a file, take ``$CLUSTERCTL_INVENTORY``, then the nearest directory at or above the
    present one that holds ``inventory.yaml`` or run folders and belongs to this user or to root. Otherwise, and where
    ``runs`` cannot be written, it is the user's state directory (XDG base directory specification).
    """
    if chosen := os.environ.get("CLUSTERCTL_RUNS"):
        return Path(chosen)
    for named in (inventory, os.environ.get("CLUSTERCTL_INVENTORY")):
        # A pipe of the shell (/dev/fd/63) is in no directory of the user's. Path.is_file raises where a directory
        # above belongs to another user.
        if named and os.path.isfile(named):  # noqa: PTH113
            return _usable(_beside(Path(named)))
    found = _above()
    return state_root() if found is None else _usable(found)


def state_root() -> Path:
    """Return the directory of the run folders in the user's state directory."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - without $HOME too
    return Path(home) / "clusterctl" / _FOLDER


def _beside(inventory: Path) -> Path:
    folder = inventory.parent
    if run_ids.is_id(folder.absolute().name):  # the inventory of containers is in the run folder of ``up``
        return folder.parent
    if folder.absolute().name == LAB_FOLDER:
        return folder.parent / _FOLDER
    return folder / _FOLDER


def _above() -> Path | None:
    try:
        here = Path.cwd()
    except OSError:  # the present directory was removed
        return None
    for depth, folder in enumerate((here, *here.parents)):
        if _has_runs(folder) and (depth == 0 or _trusted(folder)):
            return Path(*[os.pardir] * depth, _FOLDER)
    return None


def _has_runs(folder: Path) -> bool:
    if os.path.lexists(folder / _INVENTORY):
        return True
    try:
        with os.scandir(folder / _FOLDER) as entries:
            return any(run_ids.is_id(one.name) or one.name in _MARKS for one in entries)
    except OSError:
        return False


def _trusted(folder: Path) -> bool:
    """Return whether a directory above belongs to this user or root: ``--resume`` applies what a run folder holds."""
    try:
        owners = {folder.stat().st_uid}
        if os.path.lexists(folder / _FOLDER):
            owners.add((folder / _FOLDER).stat().st_uid)
    except OSError:
        return False
    return owners <= {os.geteuid(), 0}


def _usable(root: Path) -> Path:
    place = root if os.path.lexists(root) else root.parent
    return root if os.access(place, os.W_OK | os.X_OK) else state_root()


def ids(root: Path | None = None, verbs: tuple[str, ...] = (), stage: str | None = None) -> list[str]:
    """Return the ids of the runs in a directory, newest first, of these commands and with one stage's file.

    Links are left out, because they are further names of runs.
    """
    base = root if root is not None else default_root()
    try:
        with os.scandir(base) as entries:
            found = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(
        (
            name
            for name in found
            if run_ids.is_id(name)
            and (not verbs or run_ids.verb_of(name) in verbs)
            and (stage is None or (base / name / f"{stage}.json").exists())
        ),
        reverse=True,
    )


def require_label(text: str | None) -> None:
    """Raise UsageError for a label that is not one short line of visible text."""
    if text is not None and (len(text) > LABEL_CHARACTERS or ACTING_IN_A_LINE.search(text)):
        raise UsageError(
            f"the label {text[:LABEL_CHARACTERS]!r} is not one line of at most {LABEL_CHARACTERS} characters",
            hint="shorten it, and leave out line ends and control characters",
        )


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


def _require_directory(base: Path) -> None:
    """Raise ConfigError if the directory of the run folders, or one above it, exists as something else."""
    existing = next((one for one in (base, *base.parents) if os.path.lexists(one)), base)
    if os.path.lexists(existing) and not _found(existing.is_dir, existing):
        raise ConfigError(
            f"cannot create run folders in {base}: {existing} is not a directory", hint=HINT_OTHER
        )


class _Lock:
    """Hold the lock of a run folder; it ends with the object, or with the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


_AT_WORK: weakref.WeakSet[_Lock] = weakref.WeakSet()
"""The runs that this process works on."""


def _locked(path: Path, kind: int) -> _Lock:
    """Lock a run folder, if its file system has locks; raise BlockingIOError if another process has it.

    The lock is on the directory itself, so that the run folder holds no further file. On NFS it is seen by the
    processes of one machine only.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = _Lock(path, descriptor)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            raise
    return lock


def keep_error(document: Mapping[str, Any]) -> None:
    """Write the error that ends this process into each run folder that it works on, as far as possible."""
    for lock in tuple(_AT_WORK):
        with contextlib.suppress(ConfigError, ControllerFileError):
            RunDir(lock.path).write(ERROR, document)


@dataclass(frozen=True, slots=True)
class RunDir:
    """Represent one run: ``path`` is its run folder, ``id`` its name (UTC time, verb, four random hex digits).

    As long as the object of ``create`` or ``hold`` exists, other processes see that the run is in progress.
    """

    path: Path
    _lock: _Lock | None = field(default=None, repr=False, compare=False)

    @property
    def id(self) -> str:
        return self.path.name

    @classmethod
    def create(cls, verb: str, root: Path | None = None, label: str | None = None) -> RunDir:
        """Create a run folder (mode 0700) in ``root``; raise ConfigError if that fails."""
        require_label(label)
        base = root if root is not None else default_root()
        _require_directory(base)
        path = base / run_ids.make(verb, secrets.token_hex(2))
        with own_file(path, HINT_OTHER, verb="create the run folder"):
            base.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            lock = _locked(path, fcntl.LOCK_EX)
        _AT_WORK.add(lock)
        run = cls(path, lock)
        if label is not None:
            run.set_label(label)
        return run

    @classmethod
    def open(
        cls, name: str, root: Path | None = None, verbs: tuple[str, ...] = (), stage: str | None = None
    ) -> RunDir:
        """Open an existing run by its path, its id, a unique part of its id, or ``latest``.

        ``verbs`` restricts it to runs of these commands; a part of an id and ``latest`` name only runs that have the
        file of ``stage``. Raise UsageError, with the candidates, if there is no such run or several match.
        """
        base = root if root is not None else default_root()
        of = " or ".join(map(repr, verbs))
        # An empty name, probably an unset variable of a script, would open the parent of all runs.
        for candidate in (base / name, Path(name)) if name else ():
            if is_run_folder(candidate):
                # Resolve a link to a run, or ".": the journals of nodes hold the real name of the run folder.
                real = candidate.resolve()
                if run_ids.is_id(real.name):
                    if verbs and run_ids.verb_of(real.name) not in verbs:
                        latest = ", ".join(ids(base, verbs)[:5])
                        raise UsageError(
                            f"{name} is not a run of {of}",
                            hint=f"the latest runs of {of} are: {latest}" if latest else None,
                        )
                    return cls(candidate if candidate.name == real.name else real)
        return cls(base / run_ids.resolve(name, ids(base, verbs, stage), str(base), of))

    @property
    def in_progress(self) -> bool:
        """Return whether a process works on the run."""
        try:
            _locked(self.path, fcntl.LOCK_SH)
        except BlockingIOError:
            return True
        except OSError:
            pass  # another user's: its documents cannot be read either
        return False

    def hold(self, label: str | None = None) -> RunDir:
        """Return the run as this process's own, labelled; raise UsageError if another process works on it."""
        try:
            lock = _locked(self.path, fcntl.LOCK_EX)
        except BlockingIOError:
            raise UsageError(
                f"run {self.id} is in progress",
                hint="wait for the clusterctl that works on it, or interrupt it",
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot access {self.path}: {error.strerror}", hint=_HINT_OTHERS) from None
        _AT_WORK.add(lock)
        held = RunDir(self.path, lock)
        with own_file(held.file(ERROR), verb="remove"):
            held.file(ERROR).unlink(missing_ok=True)  # of an earlier part of the run
        if label is not None:
            held.set_label(label)
        return held

    @property
    def label(self) -> str | None:
        """Return the label of the run; None without one, or if it cannot be read."""
        try:
            said = self.read(LABEL)
        except ConfigError:
            return None
        found = said.get("label") if isinstance(said, dict) else None
        return found if isinstance(found, str) else None

    def set_label(self, text: str) -> None:
        """Label the run; an empty text removes the label. Raise UsageError for a text that is not a short line."""
        require_label(text)
        if text:
            self.write(LABEL, RunLabel(label=text).document())
            return
        with own_file(self.file(LABEL), verb="remove"):
            self.file(LABEL).unlink(missing_ok=True)

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
