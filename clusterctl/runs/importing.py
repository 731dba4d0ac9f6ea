"""Copy run folders of other machines into a directory of run folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from clusterctl import run_ids
from clusterctl.documents.runs import RunOutcome
from clusterctl.errors import ResultError
from clusterctl.rundir import RunDir, own_file
from clusterctl.runs import outcome

_MOST_NESTED = 32
"""Commands nest two directories in a run folder."""


def run_folders(place: Path) -> Iterator[Path]:
    """Yield the run folders of a place: the directory itself, or those in it; links are left out."""
    if run_ids.is_id(place.resolve().name):
        yield place.resolve()
        return
    with os.scandir(place) as entries:
        names = [one.name for one in entries if one.is_dir(follow_symlinks=False) and run_ids.is_id(one.name)]
    yield from (place / name for name in sorted(names))


def take(folder: Path, root: Path) -> bool:
    """Copy a run folder into ``root``, whole or not at all; return False if ``root`` has the run already.

    Only regular files and directories are copied. Raise ResultError for a run in progress, or one that cannot be read.
    """
    found = outcome.listed(RunDir(folder))
    if found.outcome in (RunOutcome.RUNNING, RunOutcome.UNREADABLE):
        raise ResultError(f"{folder}: the run is {found.outcome.value}{found.detail and f': {found.detail}'}")
    target = root / folder.name
    if os.path.lexists(target):
        return False
    with own_file(target, verb="create"):
        root.mkdir(parents=True, exist_ok=True)
        copy = Path(tempfile.mkdtemp(prefix=".import.", dir=root))
        try:
            _copy(folder, copy)
            copy.rename(target)
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise
    return True


def _copy(source: Path, target: Path, depth: int = 0) -> None:
    """Copy the regular files and directories of a directory, readable by this user only; raise ResultError."""
    if depth > _MOST_NESTED:
        raise ResultError(f"{source}: expected at most {_MOST_NESTED} nested directories in a run folder")
    with _readable(source), os.scandir(source) as found:
        entries = [(one.name, one.stat(follow_symlinks=False).st_mode) for one in found]
    for name, mode in entries:
        if stat.S_ISDIR(mode):
            (target / name).mkdir(mode=0o700)
            _copy(source / name, target / name, depth + 1)
        elif stat.S_ISREG(mode):
            _copy_file(source / name, target / name)


def _copy_file(source: Path, target: Path) -> None:
    with _readable(source):
        opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as content, target.open("xb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        shutil.copyfileobj(content, copy)


@contextlib.contextmanager
def _readable(source: Path) -> Iterator[None]:
    """Turn an OSError in the block into a ResultError: the copy's own errors are those of this machine's disk."""
    try:
        yield
    except OSError as error:
        raise ResultError(f"{source}: {error.strerror}") from error
