"""Read the result of a benchmark from its run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusterctl.documents.bench import BenchResult
from clusterctl.errors import ResultError
from clusterctl.results import damage, record
from clusterctl.results.record import Record
from clusterctl.run_ids import BENCHMARKS
from clusterctl.rundir import RunDir
from clusterctl.text import user_files

LARGEST_BYTES = 64 << 20


def named(run: str, root: Path | None) -> Record:
    """Return the record of a benchmark by its id, a unique part of it, or ``latest``; see ``RunDir.open``."""
    return read(RunDir.open(run, root, BENCHMARKS, "results").path)


def read(folder: Path) -> Record:
    """Return the record of one run folder; ResultError if its result cannot be parsed."""
    document = _json(folder / "results.json")
    if document.get("schema") != BenchResult.schema_name():
        raise ResultError(f"{folder}: results.json is not a {BenchResult.schema_name()} document")
    commands: list[str] = []
    if (folder / "artifacts.json").is_file():
        said = _json(folder / "artifacts.json").get("commands")
        said = said if isinstance(said, list) else ()
        commands = [str(entry["line"]) for entry in said if isinstance(entry, dict) and "line" in entry]
    try:
        return record.from_document(
            document, commands=commands, folder=str(folder.resolve()), label=RunDir(folder).label
        )
    except ValueError as error:
        raise ResultError(f"{folder}: this version cannot read results.json: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ResultError(f"{folder}: results.json is damaged: {error!r}") from None


def _json(path: Path) -> Any:
    try:
        return damage.parsed(user_files.read(path, LARGEST_BYTES).decode(), dict)
    except OSError as error:
        raise ResultError(
            f"{path} cannot be read: {error.strerror}", hint=user_files.hint_of(error)
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f"{path} is damaged: {error}") from None
