"""Keep the outcome of each row of each node in the run folder as soon as it is known, so that a cut run can go on."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from clusterctl import rundir
from clusterctl.acceptance.model import RowOutcome
from clusterctl.errors import ConfigError
from clusterctl.text import user_files
from clusterctl.text.foreign import NotUnderstood, json_value

FILE = "outcomes.jsonl"
_ADAPTER = TypeAdapter(RowOutcome)
Key = tuple[str, str, int]


class OutcomeFile:
    """Hold the outcomes of a run by node, row and repeat, in a file with a line for each. The last line counts.

    The methods may be called from any thread.
    """

    def __init__(self, folder: Path) -> None:
        """Read the outcomes of an earlier part of the run; a line that a crash cut off is left out."""
        self._path = folder / FILE
        self._lock = threading.Lock()
        self._found: dict[Key, RowOutcome] = {}
        if self._path.exists():
            self._read()

    def _read(self) -> None:
        try:
            text = user_files.read(self._path, rundir.LARGEST_BYTES).decode(errors="replace")
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from None
        for line in text.splitlines():
            try:
                one = _ADAPTER.validate_python(json_value(line))
            except (NotUnderstood, ValidationError):
                continue
            self._found[one.node, one.row, one.repeat] = one

    def add(self, outcome: RowOutcome) -> None:
        """Record an outcome, on the disk before this returns."""
        line = json.dumps(_ADAPTER.dump_python(outcome, mode="json"), allow_nan=False) + "\n"
        with self._lock, rundir.own_file(self._path):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                end = os.fstat(handle).st_size
                if end and os.pread(handle, 1, end - 1) != b"\n":
                    line = "\n" + line  # a crash cut the last line off
                os.write(handle, line.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
            self._found[outcome.node, outcome.row, outcome.repeat] = outcome

    def has(self, node: str, row: str, repeat: int) -> bool:
        """Return whether a row is finished on a node; one that could not run is tried again."""
        with self._lock:
            found = self._found.get((node, row, repeat))
        return found is not None and not found.not_run

    @property
    def all(self) -> tuple[RowOutcome, ...]:
        """Return all outcomes, in the order in which they were first recorded."""
        with self._lock:
            return tuple(self._found.values())
