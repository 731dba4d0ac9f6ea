"""The database's schema: numbered steps, each applied once and atomically, never changed after a release."""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x6363746C
"""``cctl``: the PRAGMA application_id by which file(1) and clusterctl recognise the database."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE runs (
            run                TEXT PRIMARY KEY NOT NULL,
            started_at         TEXT NOT NULL,
            benchmark          TEXT NOT NULL,
            library            TEXT,
            launcher           TEXT,
            np                 INTEGER,
            nodes              INTEGER,
            status             TEXT NOT NULL,
            key                TEXT,
            hardware           TEXT,
            figure             REAL,
            unit               TEXT,
            versions           TEXT NOT NULL,
            clusterctl_version TEXT,
            folder             TEXT,
            commands           TEXT NOT NULL,
            document           TEXT NOT NULL
        )
        """,
        "CREATE INDEX runs_by_time ON runs (started_at)",
        "CREATE INDEX runs_by_key ON runs (key, started_at)",
    ),
    ("ALTER TABLE runs ADD COLUMN label TEXT",),
)
"""Step i brings version i to i + 1. ``versions`` and ``commands`` are JSON lists, ``document`` the whole JSON."""


def version(connection: sqlite3.Connection) -> int:
    """Return the number of steps applied to a database."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_ours(connection: sqlite3.Connection) -> bool:
    """Tell whether a database is this program's, or an empty file that may become one."""
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if owner == APPLICATION_ID:
        # A view with this name could be endlessly recursive.
        kinds = connection.execute("SELECT type FROM sqlite_master WHERE name = 'runs'").fetchall()
        return all(kind == ("table",) for kind in kinds)
    return owner == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def migrate(connection: sqlite3.Connection) -> None:
    """Upgrade a database to the newest version in one transaction; of concurrent processes, one does it."""
    if version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock, because another process may have upgraded it meanwhile.
        for step in MIGRATIONS[version(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
