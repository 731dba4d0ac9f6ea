"""A damaged or hostile database of results: a clear error, or the damaged run left out, and never a traceback."""

from __future__ import annotations

import copy
import json
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from result_documents import collective, training

from clusterctl.cli import console
from clusterctl.cli.results import baseline as results_baseline
from clusterctl.cli.results import exchange as results_exchange
from clusterctl.cli.results import runs as results
from clusterctl.errors import ClusterctlError, ResultError
from clusterctl.results import store
from clusterctl.results.record import Record
from clusterctl.results.store import Store

CLEAN, HURT = "20261120T091500Z-bench-c0de", "20261120T093000Z-bench-beef"
VALUES: tuple[Any, ...] = (
    *(None, "", "x", "\ud800", "\u202e", "9" * 5000, "null", "[]", "{}", "1e999", "NaN", "-1", "0"),
    *(0, 1, -1, 2**31, 2**62, 10**30, 0.0, 1e308, -1e308, 0.1, True, [], {}, [[]], [None], ["x"], [1e308]),
    *({"": None}, {"np": "x"}, {"1": "x"}, {"x": {}}, {"2": {"np": "9" * 400, "nodes": "1"}}),
)
COLUMNS = (
    *("started_at", "benchmark", "library", "launcher", "np", "nodes", "status", "key", "hardware", "figure"),
    *("unit", "versions", "clusterctl_version", "folder", "commands", "document"),
)
RAW: tuple[Any, ...] = (
    *(None, b"\xff\xfe", b"", "x", "", 0, -(2**63), 2**63 - 1, 9e999, 1e-320, "[" * 5000, '{"a":' * 5000),
    *(
        "[1, 2]",
        "[null]",
        '{"run": 1}',
        "NaN",
        '{"rows": NaN}',
        "0001-01-01T00:00:00Z",
        "2026-11-20",
        "1" * 5000,
    ),
)


def verbs(root: Path, out: Path) -> dict[str, Callable[[], object]]:
    any_run = results.Filters()
    formats = {
        f"export {kind.value}": lambda kind=kind: results_exchange.export(
            kind, out / "out", filters=any_run, runs=root
        )
        for kind in results_exchange.Format
    }
    return {
        "list": lambda: results.list_runs(any_run, root),
        "list --json": lambda: results.list_runs(any_run, root, as_json=True),
        "show": lambda: results.show(HURT, None, root),
        "show latest": lambda: results.show("latest", None, root),
        "show --json": lambda: results.show(HURT, None, root, as_json=True),
        "show --html": lambda: results.show(HURT, out / "page.html", root),
        "compare": lambda: results.compare_runs([CLEAN, HURT], None, root),
        "compare --html": lambda: results.compare_runs([HURT, CLEAN], out / "page.html", root, as_json=True),
        "baseline record": lambda: results_baseline.record("b", [HURT], root),
        **formats,
    }


def mutated(document: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Return the document with one to three of its values replaced, removed or added."""
    document = copy.deepcopy(document)
    for _ in range(dice.randint(1, 3)):
        place: Any = document
        while True:
            keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = dice.choice(keys)
            if isinstance(place[key], (dict, list)) and place[key] and dice.random() < 0.85:
                place = place[key]
                continue
            if dice.random() < 0.15:
                del place[key]
            else:
                place[key] = copy.deepcopy(dice.choice(VALUES))
            break
    return document


def hurt(root: Path, column: str, value: object) -> None:
    connection = sqlite3.connect(root / store.FILE)
    with connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        try:
            connection.execute(f"UPDATE runs SET {column} = ? WHERE run = ?", (value, HURT))
        except sqlite3.IntegrityError:
            connection.execute(f"UPDATE runs SET {column} = '' WHERE run = ?", (HURT,))
    connection.close()


def records(dice: random.Random) -> tuple[Record, Record]:
    second = training([[100.0], [80.0] * 2], run=HURT) if dice.random() < 0.5 else collective(run=HURT)
    return collective(run=CLEAN), second


def outcomes(root: Path) -> dict[str, ClusterctlError | None]:
    (root / "baselines").mkdir(exist_ok=True)
    found: dict[str, ClusterctlError | None] = {}
    for name, verb in verbs(root, root).items():
        for made in (root / "baselines").iterdir():
            made.unlink()
        try:
            verb()
            found[name] = None
        except ClusterctlError as error:
            found[name] = error
        except typer.Exit:
            found[name] = None
    return found


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(console, "talk", said.append)
    monkeypatch.setattr(console, "data", lambda text, **look: None)
    monkeypatch.setattr(console, "emit_json", lambda document: json.dumps(document, allow_nan=False))
    return said


CASES = 15


@pytest.mark.parametrize("seed", range(4))
def test_no_mutation_of_a_stored_run_gives_a_traceback(tmp_path: Path, seed: int, quiet: list[str]) -> None:
    dice = random.Random(seed)
    for _ in range(CASES):
        clean, second = records(dice)
        (tmp_path / store.FILE).unlink(missing_ok=True)
        with Store.open(tmp_path) as made:
            made.save(clean, second)
        if dice.random() < 0.3:
            hurt(tmp_path, dice.choice(COLUMNS), dice.choice(RAW))
        else:
            hurt(tmp_path, "document", json.dumps(mutated(dict(second.document), dice)))
        found = outcomes(tmp_path)
        assert {error.exit_code for error in found.values() if error is not None} <= {2, 11}
        # A damaged run is left out of lists and exports, which go on.
        assert not [
            name for name, error in found.items() if error is not None and name.startswith(("list", "export"))
        ]
        assert CLEAN in (tmp_path / "out").read_text()


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("np", "many", "its np is 'many', expected int"),
        ("figure", 9e999, "its figure is inf"),
        ("started_at", "yesterday", "Invalid isoformat string"),
        ("document", "[" * 5000, "is damaged"),
        ("document", b"\xff", "is damaged"),
        ("versions", "[1]", "its versions must all be strings"),
    ],
)
def test_a_damaged_run_is_named_and_the_others_are_listed(
    tmp_path: Path, column: str, value: object, said: str, quiet: list[str]
) -> None:
    with Store.open(tmp_path) as made:
        made.save(collective(run=CLEAN), collective(run=HURT))
    hurt(tmp_path, column, value)
    with pytest.raises(ResultError, match=HURT) as raised, Store.open(tmp_path, make=False) as opened:
        opened.get(HURT)
    assert said in raised.value.message and "results import" in str(raised.value.hint)
    results_exchange.export(
        results_exchange.Format.csv, tmp_path / "out", filters=results.Filters(), runs=tmp_path
    )
    assert CLEAN in (tmp_path / "out").read_text() and HURT not in (tmp_path / "out").read_text()
    assert any(line.startswith("warning: left out: ") and HURT in line for line in quiet)


def test_ids_that_are_not_texts_do_not_hide_the_others(tmp_path: Path) -> None:
    with Store.open(tmp_path) as made:
        made.save(collective(run=CLEAN), collective(run=HURT))
    hurt(tmp_path, "run", b"\xff\x00")
    with Store.open(tmp_path, make=False) as opened:
        assert opened.get("latest").summary.run == CLEAN
        assert [one.run for one in opened.runs()] == [CLEAN] and len(opened.damaged) == 1


def _view(path: Path) -> None:
    with Store.open(path.parent):
        pass
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE c(run) AS (SELECT 1 UNION ALL SELECT run + 1 FROM c) "
        "SELECT run, run started_at FROM c;"
    )
    connection.close()


def _columns(path: Path) -> None:
    with Store.open(path.parent):
        pass
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE runs RENAME COLUMN figure TO figures;")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_view, "a database of another program"),
        (_columns, "is damaged: no such column: figure"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.write_bytes(os.urandom(4096)), "is damaged"),
    ],
)
def test_a_file_that_is_something_else_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(tmp_path / store.FILE)
    for make in (False, True):
        with pytest.raises(ResultError) as raised, Store.open(tmp_path, make=make) as opened:
            opened.runs()
        assert said in raised.value.message, raised.value.message
