"""Files of baselines: one JSON file each in ``baselines/`` beside the run folders, suitable for version control."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clusterctl import rundir
from clusterctl.benchmarks.key import FIELDS
from clusterctl.documents.baseline import BaselineEntry as StoredEntry
from clusterctl.documents.baseline import BaselineFile, BaselineSeries
from clusterctl.errors import ResultError, UsageError
from clusterctl.inventory.user_paths import is_file
from clusterctl.results.baseline import Baseline, BaselineEntry, Series
from clusterctl.text import json_text, model_errors, user_files

FOLDER = "baselines"
LARGEST_BYTES = 64 << 20
_SUFFIX = ".baseline.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def path_of(name: str, root: Path | None = None) -> Path:
    """Return the path of a baseline; a name with a slash is a path. UsageError for an invalid name."""
    if "/" in name:
        return Path(name)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name for a baseline",
            hint="use 1 to 64 letters, digits, '.', '_' and '-'",
        )
    return (root if root is not None else rundir.default_root()) / FOLDER / (name + _SUFFIX)


def names(root: Path | None = None) -> tuple[str, ...]:
    """Return the names of all baselines, sorted."""
    folder = (root if root is not None else rundir.default_root()) / FOLDER
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}")))


def load(name: str, root: Path | None = None) -> Baseline:
    """Read a baseline; UsageError if it is missing, ResultError if it cannot be read."""
    path = path_of(name, root)
    try:
        text = user_files.read_text(path, LARGEST_BYTES)
    except FileNotFoundError:
        known = ", ".join(names(root)) or "none yet"
        raise UsageError(
            f"baseline {name!r} not found (recorded: {known})",
            hint=f"record it from healthy runs: clusterctl runs baseline record {name} --run RUN",
        ) from None
    except OSError as error:
        raise ResultError(
            f"{path} cannot be read: {error.strerror}", hint=user_files.hint_of(error)
        ) from None
    except UnicodeDecodeError as error:
        raise ResultError(f"{path} cannot be read as UTF-8 text: {error}") from None
    try:
        found = BaselineFile.model_validate_json(text)
    except ValidationError as error:
        raise ResultError(
            f"{path} is not a valid baseline: {model_errors.first(error)}",
            hint=f"restore the file, or remove it and record it again: clusterctl runs baseline remove {name}",
        ) from None
    return Baseline(
        found.name,
        tuple(
            BaselineEntry(
                {name: entry.key.get(name, "-") for name in FIELDS},
                entry.runs,
                tuple(Series(one.size_bytes, one.unit, one.values) for one in entry.series),
            )
            for entry in found.entries
        ),
    )


def document(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline as the text of its file."""
    entries = tuple(
        StoredEntry(
            key=dict(entry.key),
            runs=entry.runs,
            series=tuple(
                BaselineSeries(size_bytes=one.size_bytes, unit=one.unit, values=one.values)
                for one in entry.series
            ),
        )
        for entry in baseline.entries
    )
    return BaselineFile(name=baseline.name, entries=entries).document()


def save(baseline: Baseline, root: Path | None = None) -> Path:
    """Write a baseline atomically and return its path; ResultError if it cannot be written."""
    path = path_of(baseline.name, root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rundir.write_atomically(path, (json_text.in_ascii(document(baseline), indent=1) + "\n").encode())
    except OSError as error:
        raise ResultError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def remove(name: str, root: Path | None = None) -> None:
    """Remove a baseline, even a damaged one; UsageError if it is missing."""
    path = path_of(name, root)
    if not is_file(path):
        load(name, root)  # raises the error that lists the recorded baselines
    try:
        path.unlink()
    except OSError as error:
        raise ResultError(f"{path} cannot be removed: {error.strerror or error}") from None
