"""Pack the directory of ``launch --bring`` for the nodes."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

from clusterctl.errors import UsageError

LARGEST_BYTES = 64 << 20
MOST_FILES = 20_000
_LEFT_OUT = (".git", ".venv", "__pycache__")
_SHARE = (
    "keep data sets and checkpoints in a directory that all nodes mount, and give its path to the program"
)


def packed(directory: Path, leave_out: Path) -> bytes:
    """Return a tar file of a directory, without version control, caches, and the run folders in ``leave_out``.

    Raise UsageError for what cannot be brought: too much, special files, and links that lead out of the directory.
    """
    root = directory.resolve()
    if not root.is_dir():
        raise UsageError(f"--bring {directory} is not a directory", hint="give the directory of the program")
    buffer = io.BytesIO()
    total = files = 0
    try:
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
            for path in _below(root, leave_out.resolve()):
                entry = _entry(tar, path, root)
                files += 1
                total += entry.size
                # Before the file is read: it may be a data set.
                if files > MOST_FILES or total > LARGEST_BYTES:
                    raise UsageError(
                        f"--bring {directory} has more than {MOST_FILES} files or {LARGEST_BYTES >> 20} MiB",
                        hint=_SHARE,
                    )
                if not entry.isreg():
                    tar.addfile(entry)
                    continue
                with path.open("rb") as data:
                    tar.addfile(entry, data)
    except OSError as error:
        # A file that became shorter has no name here.
        what = f"{error.filename} cannot be read: {error.strerror}" if error.filename else "a file changed"
        raise UsageError(
            f"--bring {directory}: {what}",
            hint="make its files readable, let nothing write to them, or choose a smaller directory",
        ) from None
    return buffer.getvalue()


def _below(root: Path, left_out: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for folder, names, files in os.walk(root, onerror=refuse):
        here = Path(folder)
        links = [name for name in names if (here / name).is_symlink()]
        names[:] = sorted(
            name for name in names if name not in (*_LEFT_OUT, *links) and (here / name) != left_out
        )
        yield from (here / name for name in (*names, *sorted((*links, *files))))


def _entry(tar: tarfile.TarFile, path: Path, root: Path) -> tarfile.TarInfo:
    """Return the header of one file, directory or link, which belongs to the login user on the nodes."""
    name = str(path.relative_to(root))
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        target = path.readlink()
        if target.is_absolute() or not Path(os.path.realpath(path)).is_relative_to(root):
            raise UsageError(
                f"--bring: the link {name} leads out of the directory, to {target}",
                hint="replace it by what it points to, or remove it",
            )
    elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UsageError(f"--bring: {name} is not a file, directory or link", hint="remove it")
    # A hard link of another name would need that name, so each file is whole.
    tar.inodes.clear()  # type: ignore[attr-defined]
    entry = tar.gettarinfo(str(path), name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    # The owner can read what was brought, and remove it afterwards.
    entry.mode = (entry.mode & 0o777) | (0o700 if entry.isdir() else 0o600)
    return entry
