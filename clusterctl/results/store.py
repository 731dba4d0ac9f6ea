"""Results in SQLite, beside their run folders: ``runs/results.sqlite``, mode 0600.

The database is an index of the run folders and can be rebuilt from them (``clusterctl results import``). An error
here must therefore never lose the result of a benchmark.

The write-ahead log is not used: its index is in memory shared by the processes of one machine, so WAL does not work on
NFS (https://www.sqlite.org/wal.html), where clusters often have home directories. The rollback journal needs only POSIX
locks, which NFS 4 has; a run takes one short transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from clusterctl import json_text, run_ids, rundir
from clusterctl.errors import ResultError, UsageError
from clusterctl.results import damage, migrations
from clusterctl.results.record import Record, Summary

FILE = "results.sqlite"
BUSY_TIMEOUT_S = 15.0
_COLUMNS = tuple(column.name for column in fields(Summary))
_REBUILD = "move the file away and rebuild it from the run folders with 'clusterctl results import'"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter for runs: None matches any. ``since`` is RFC 3339 in UTC; ``newest`` is the largest number of runs."""

    benchmark: str | None = None
    library: str | None = None
    status: str | None = None
    since: str | None = None
    key: str | None = None
    newest: int | None = None


def path_in(root: Path | None = None) -> Path:
    """Return the database's path in a directory of run folders (None: the default)."""
    return (root if root is not None else rundir.default_root()) / FILE


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite errors into a ResultError with the file and a hint."""
    try:
        yield
    except sqlite3.OperationalError as error:
        said = str(error)
        if "no such" in said or "malformed" in said:
            raise ResultError(f"{path} is damaged: {said}", hint=_REBUILD) from error
        if "locked" in said or "busy" in said:
            raise ResultError(
                f"{path} was in use by another process for {BUSY_TIMEOUT_S:g} s",
                hint="try again; on NFS, file locks need NFS 4 or a lock daemon",
            ) from error
        raise ResultError(
            f"{path}: {said}", hint="check the free space and your permission to write there"
        ) from error
    except sqlite3.DatabaseError as error:
        raise ResultError(f"{path} is damaged: {error}", hint=_REBUILD) from error
    except OSError as error:
        raise ResultError(
            f"{path} cannot be opened: {error.strerror}",
            hint="check the free space and your permission to write there",
        ) from error


class Store:
    """An open database of results; a context manager. Raises ResultError, and UsageError for a run that it lacks."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self.damaged: list[str] = []
        """The errors of skipped runs."""

    @classmethod
    def open(cls, root: Path | None = None, *, make: bool = True) -> Store:
        """Open the database of a directory of run folders, and upgrade its schema.

        A missing database is created; without ``make`` nothing is written, and the store is empty.
        """
        path = path_in(root)
        with _explained(path):
            place = str(path)
            if make and not path.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                # Created here because SQLite would apply the umask; its journals copy this file's mode.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            elif not path.exists():
                place = ":memory:"
            if path.exists() and not path.is_file():
                raise ResultError(f"{path} cannot be opened: it is not a regular file", hint=_REBUILD)
            connection = sqlite3.connect(place, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            # Bytes that are not UTF-8 must damage only their own run, not the whole query.
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            try:
                cls._require_known(path, connection)
                migrations.migrate(connection)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    @staticmethod
    def _require_known(path: Path, connection: sqlite3.Connection) -> None:
        if not migrations.is_ours(connection):
            raise ResultError(
                f"{path} is a database of another program", hint="choose another directory with --runs"
            )
        found, known = migrations.version(connection), len(migrations.MIGRATIONS)
        if found > known:
            raise ResultError(
                f"{path} was written by a newer clusterctl (schema {found}; this version supports up to {known})",
                hint="use the newer clusterctl, or store the results of this version elsewhere with --runs DIR",
            )

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def save(self, *records: Record) -> None:
        """Store runs, all or none; an already stored run is replaced."""
        names = (*_COLUMNS, "commands", "document")
        updated = ", ".join(f"{name} = excluded.{name}" for name in names if name != "run")
        statement = (
            f"INSERT INTO runs ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
            f"ON CONFLICT (run) DO UPDATE SET {updated}"
        )
        with _explained(self.path), self._transaction():
            self._connection.executemany(statement, [_values(record) for record in records])

    def remove(self, run: str) -> None:
        """Remove the row of one run, if it has one."""
        with _explained(self.path), self._transaction():
            self._connection.execute("DELETE FROM runs WHERE run = ?", (run,))

    def label(self, run: str, text: str | None) -> None:
        """Set the label of one run, if it is stored; None removes the label."""
        with _explained(self.path), self._transaction():
            self._connection.execute("UPDATE runs SET label = ? WHERE run = ?", (text, run))

    def runs(self, wanted: RunFilter | None = None) -> tuple[Summary, ...]:
        """Return the matching runs, newest first; errors of unreadable runs are added to ``damaged``."""
        where, values = _where(wanted or RunFilter())
        statement = f"SELECT {', '.join(_COLUMNS)} FROM runs{where}"
        with _explained(self.path):
            found = self._connection.execute(statement, values).fetchall()
        summaries = []
        for row in found:
            try:
                summaries.append(self._summary(row))
            except ResultError as error:
                self.damaged.append(error.message)
        return tuple(summaries)

    def get(self, run: str) -> Record:
        """Return one run by its id or by a unique part of its id; ``latest``: the newest."""
        row = self._row(run) or self._row(self._resolve(run))
        if row is None:
            raise ResultError(f"another process has just removed run {run} from {self.path}")
        *columns, commands, document = row
        summary = self._summary(columns)
        with damage.read_as_stored(summary.run, self.path):
            lines = damage.parsed(commands, list)
            return Record(summary, damage.parsed(document, dict), tuple(str(line) for line in lines))

    def _row(self, run: str) -> tuple[Any, ...] | None:
        names = ", ".join((*_COLUMNS, "commands", "document"))
        # A command line may contain bytes that are not valid text; an id never does.
        plain = run.encode("utf-8", "replace").decode()
        with _explained(self.path):
            found = self._connection.execute(f"SELECT {names} FROM runs WHERE run = ?", (plain,)).fetchone()
        return None if found is None else tuple(found)

    def _resolve(self, run: str) -> str:
        with _explained(self.path):
            ids = [
                row[0]
                for row in self._connection.execute("SELECT run FROM runs ORDER BY started_at DESC, run DESC")
                if isinstance(row[0], str)
            ]
        if not ids:
            raise UsageError(f"{self.path} has no results yet", hint="run clusterctl bench first")
        return run_ids.resolve(run, ids, str(self.path))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # A full disk has already ended the transaction; an error of the rollback would hide the first one.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _summary(self, row: Any) -> Summary:
        return damage.summary(dict(zip(_COLUMNS, row, strict=True)), self.path)


def _values(record: Record) -> list[Any]:
    columns = {name: getattr(record.summary, name) for name in _COLUMNS}
    columns["versions"] = json_text.in_ascii(list(record.summary.versions))
    # Invalid bytes from a node arrive as lone surrogates, which no column can store; JSON escapes them.
    plain = [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in columns.values()]
    return [*plain, json_text.in_ascii(list(record.commands)), json_text.in_ascii(record.document)]


def _where(wanted: RunFilter) -> tuple[str, list[Any]]:
    conditions = {
        "benchmark = ?": wanted.benchmark,
        # The libraries of variants are joined by ", ".
        "instr(', ' || library || ', ', ', ' || ? || ', ') > 0": wanted.library,
        "status = ?": wanted.status,
        "started_at >= ?": wanted.since,
        "key = ?": wanted.key,
    }
    chosen = {text: value for text, value in conditions.items() if value is not None}
    where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
    limit = " LIMIT ?" if wanted.newest is not None else ""
    values = [*chosen.values(), *([wanted.newest] if wanted.newest is not None else [])]
    return f"{where} ORDER BY started_at DESC, run DESC{limit}", values
