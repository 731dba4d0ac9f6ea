"""A damaged or hostile result in a run folder: a clear error, or the run left out, and never a traceback."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from result_documents import collective, training

from clusterctl.cli import console
from clusterctl.cli.runs import baseline, comparing, exchange, listing
from clusterctl.errors import ClusterctlError
from clusterctl.results.record import Record

CLEAN, HURT = "20261120T091500Z-bench-c0de", "20261120T093000Z-bench-beef"
VALUES: tuple[Any, ...] = (
    *(None, "", "x", "\ud800", "\u202e", "9" * 5000, "null", "[]", "{}", "1e999", "NaN", "-1", "0"),
    *(0, 1, -1, 2**31, 2**62, 10**30, 0.0, 1e308, -1e308, 0.1, True, [], {}, [[]], [None], ["x"], [1e308]),
    *({"": None}, {"np": "x"}, {"1": "x"}, {"x": {}}, {"2": {"np": "9" * 400, "nodes": "1"}}),
)


def verbs(root: Path, out: Path) -> dict[str, Callable[[], object]]:
    any_run = listing.Filters()
    formats = {
        f"export {kind.value}": lambda kind=kind: exchange.export(
            kind, out / "out", filters=any_run, runs=root
        )
        for kind in exchange.Format
    }
    return {
        "list": lambda: listing.list_runs(filters=any_run, runs=root),
        "list --json": lambda: listing.list_runs(filters=any_run, runs=root, as_json=True),
        "show": lambda: listing.show(HURT, None, root),
        "show latest": lambda: listing.show("latest", None, root),
        "show --json": lambda: listing.show(HURT, None, root, as_json=True),
        "show --html": lambda: listing.show(HURT, out / "page.html", root),
        "compare": lambda: comparing.compare_runs([CLEAN, HURT], None, root),
        "compare --html": lambda: comparing.compare_runs(
            [HURT, CLEAN], out / "page.html", root, as_json=True
        ),
        "baseline record": lambda: baseline.record("b", [HURT], root),
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


def folder_of(root: Path, run: str, document: Any) -> None:
    """Write a run folder whose result is this document; one that JSON cannot hold is written as Python reads it."""
    folder = root / run
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(document))


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


CASES = 10


@pytest.mark.parametrize("seed", range(4))
def test_no_mutation_of_a_result_gives_a_traceback(tmp_path: Path, seed: int, quiet: list[str]) -> None:
    dice = random.Random(seed)
    for _ in range(CASES):
        clean, second = records(dice)
        folder_of(tmp_path, CLEAN, clean.document)
        folder_of(tmp_path, HURT, mutated(dict(second.document), dice))
        found = outcomes(tmp_path)
        assert {error.exit_code for error in found.values() if error is not None} <= {2, 3, 11}
        # A damaged run is left out of exports and unreadable in lists, which go on.
        assert not [
            name for name, error in found.items() if error is not None and name.startswith(("list", "export"))
        ]
        assert CLEAN in (tmp_path / "out").read_text()
