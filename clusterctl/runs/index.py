"""The index of the runs of all commands: ``runs/index.sqlite``, mode 0600.

The run folders are the truth. The index keeps what a list shows of each run, so that 10,000 of them need not be parsed;
it is brought up to date by each list, and made again from the run folders if it cannot be used.

The write-ahead log is not used: its shared memory does not work on NFS (https://www.sqlite.org/wal.html), where
clusters often have home directories.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl import rundir
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.rundir import RunDir
from clusterctl.runs import outcome
from clusterctl.text.foreign import json_value

FILE = "index.sqlite"
VERSION = 4
"""The PRAGMA user_version; an index of another version is made again. Raise it when a list shows a run differently."""
APPLICATION_ID = 0x6363746C
"""``cctl``: the PRAGMA application_id by which file(1) and clusterctl recognise the index."""
_SCHEMA = "CREATE TABLE runs (run TEXT PRIMARY KEY, stamp TEXT NOT NULL, entry TEXT NOT NULL) WITHOUT ROWID"
_BUSY_TIMEOUT_S = 2.0
# A change within the resolution of a file system's clock may leave its times as they were.
_SETTLED_NS = 2_000_000_000
_MANY = 1000


@dataclass(frozen=True, slots=True)
class IndexedRuns:
    """The runs of a list, and what a user must know about the index; empty: nothing."""

    entries: tuple[ListedRun, ...]
    note: str = ""


class _Unusable(Exception):
    """Say why an index cannot be used."""


class _AnotherProgramsError(Exception):
    """Report a database that another program made: it is not replaced."""


def find(
    root: Path,
    ids: Sequence[str],
    most: int | None = None,
    fits: Callable[[ListedRun], bool] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> IndexedRuns:
    """Return the first ``most`` runs of ``ids`` that fit, in their order; None: all. ``advance`` counts each of them.

    Bring the index up to date for the runs that were looked at. Without a usable index the run folders are read.
    """
    connection, note = _opened(root / FILE)
    entries: list[ListedRun] = []
    fresh: list[tuple[str, str, str]] = []
    rows = _rows(connection)
    try:
        for run in ids:
            if most is not None and len(entries) >= most:
                break
            advance()
            folder = root / run
            stamp, is_settled = _stamp(folder, outcome.document_of(run))
            known, text = rows.get(run, ("", ""))
            entry = _indexed(text, folder) if known == stamp else None
            if entry is None:
                entry = outcome.listed(RunDir(folder))
                if not os.path.lexists(folder):
                    continue  # removed since its name was read
                if is_settled and entry.outcome not in (RunOutcome.RUNNING, RunOutcome.UNREADABLE):
                    text = json.dumps(entry.model_dump(mode="json", exclude={"folder"}))
                    fresh.append((run, stamp, text))
            if fits is None or fits(entry):
                entries.append(entry)
        if connection is not None and fresh:
            _store(connection, root, fresh)
    finally:
        if connection is not None:
            connection.close()
    if not note and len(fresh) >= _MANY:
        note = f"{len(fresh)} runs were added to {root / FILE}"
    return IndexedRuns(tuple(entries), note)


def _stamp(folder: Path, document: str) -> tuple[str, bool]:
    """Return the times and sizes by which a change of a run is seen, and whether they are old enough to be relied on.

    Files of a run folder are replaced, never changed, so that the time of the directory shows most changes.
    """
    times = []
    sizes = []
    for path in (str(folder), f"{folder}/{document}"):
        try:
            found = os.stat(path)  # noqa: PTH116 - a Path for each file of 10,000 runs takes as long as the calls
        except OSError:
            continue
        times.append(found.st_mtime_ns)
        sizes.append(found.st_size)
    is_settled = bool(times) and max(times) < time.time_ns() - _SETTLED_NS
    return " ".join(map(str, (*times, *sizes))), is_settled


def _rows(connection: sqlite3.Connection | None) -> dict[str, tuple[str, str]]:
    """Return the stamp and the entry of each run in the index."""
    if connection is None:
        return {}
    try:
        return {run: known for run, *known in connection.execute("SELECT run, stamp, entry FROM runs")}
    except sqlite3.Error:
        return {}


def _indexed(text: str, folder: Path) -> ListedRun | None:
    """Return a run by its entry in the index; None if a process works on it, or if the entry is damaged."""
    if RunDir(folder).in_progress:
        return None
    try:
        entry = ListedRun.model_validate({**json_value(text), "folder": str(folder.absolute())})
    except (TypeError, ValueError):
        return None
    return entry if entry.run == folder.name else None


def _opened(path: Path) -> tuple[sqlite3.Connection | None, str]:
    """Return an index, None if there cannot be one, and a note if it was made again or is not used."""
    note = ""
    for is_second in (False, True):
        try:
            return _connected(path), note
        except _AnotherProgramsError:
            return None, f"{path} is not used, and the run folders are read: another program made it"
        except (_Unusable, sqlite3.DatabaseError) as error:
            if is_second or isinstance(error, sqlite3.OperationalError):
                break  # another process has locked it, or it cannot be read
            why = str(error) if isinstance(error, _Unusable) else "it is damaged"
            note = f"{path} is made again from the run folders: {why}"
            try:
                path.unlink()
                path.with_name(f"{FILE}-journal").unlink(missing_ok=True)
            except OSError as refusal:
                return None, f"{path} is not used, and the run folders are read: {why}; {refusal.strerror}"
        except OSError:
            break  # the directory cannot be written
    return None, note


def _connected(path: Path) -> sqlite3.Connection:
    """Return a connection to an index; raise _Unusable, _AnotherProgramsError, sqlite3.Error or OSError."""
    with contextlib.suppress(FileExistsError):
        # Created here because SQLite would apply the umask; its journal copies this file's mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise _Unusable("it is not a regular file")
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        if found.st_size == 0:
            connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA}; PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {VERSION}; COMMIT;"
            )
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise _AnotherProgramsError
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise _Unusable(f"another version of clusterctl made it (schema {version}, not {VERSION})")
        # A view with this name could be endlessly recursive.
        if connection.execute("SELECT sql FROM sqlite_master").fetchall() != [(_SCHEMA,)]:
            raise _Unusable("it is not an index of runs")
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise _Unusable("it is damaged")
    except BaseException:
        connection.close()
        raise
    return connection


def _store(connection: sqlite3.Connection, root: Path, fresh: Sequence[tuple[str, str, str]]) -> None:
    """Write rows, and remove those of removed runs; what cannot be written is read again by the next list."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", fresh)
        present = set(rundir.ids(root))
        if connection.execute("SELECT count(*) FROM runs").fetchone()[0] > len(present):
            listed = {row[0] for row in connection.execute("SELECT run FROM runs")}
            connection.executemany("DELETE FROM runs WHERE run = ?", [(run,) for run in listed - present])
        connection.execute("COMMIT")
