"""Copy run folders of other machines into a directory of run folders."""

from __future__ import annotations

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
            shutil.copytree(folder, copy, ignore=_not_plain, copy_function=_copied, dirs_exist_ok=True)
            copy.chmod(0o700)
            copy.rename(target)
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise
    return True


def _not_plain(folder: str, names: list[str]) -> list[str]:
    modes = ((name, os.lstat(os.path.join(folder, name)).st_mode) for name in names)  # noqa: PTH118
    return [name for name, mode in modes if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))]


def _copied(source: str, target: str) -> str:
    """Copy the content of a regular file, readable by this user only."""
    opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as content, Path(target).open("xb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        shutil.copyfileobj(content, copy)
    return target
