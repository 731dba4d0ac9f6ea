"""What the process sets did and when, as a Chrome trace (chrome://tracing, Perfetto)."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from io import TextIOWrapper
from pathlib import Path

_logger = logging.getLogger("collective_core")


class Timeline:
    """Writes events as they end. A row per name of a call; microseconds since the start. Safe from any thread."""

    def __init__(self) -> None:
        """Be off."""
        self._lock = threading.Lock()
        self._file: TextIOWrapper | None = None
        self._began = 0.0
        self._rows: dict[str, int] = {}

    def start(self, path: str) -> None:
        """Begin a file; raises ValueError when one is open, OSError when it cannot be made."""
        with self._lock:
            if self._file is not None:
                raise ValueError("the timeline is on: stop_timeline() first")
            self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115  # closed by stop
            self._file.write("[\n")
            self._began = time.perf_counter()
            self._rows = {}

    def stop(self) -> None:
        """End the file, if one is open. What of it cannot be written, is a warning."""
        with self._lock:
            if self._file is None:
                return
            # Without a comma after it, so that the file is JSON.
            end = {
                "name": "end",
                "ph": "i",
                "s": "g",
                "pid": 0,
                "tid": 0,
                "ts": self._since(time.perf_counter()),
            }
            self._write(json.dumps(end) + "\n]\n")
            self._close()

    def note(self, row: str, event: str, began: float) -> None:
        """Write an event of a row, from `began`, a time of time.perf_counter, to now."""
        with self._lock:
            if self._file is None or began < self._began:
                return
            lines = []
            if row not in self._rows:
                self._rows[row] = len(self._rows) + 1
                lines.append(
                    {"name": "process_name", "ph": "M", "pid": self._rows[row], "args": {"name": row}}
                )
            start = self._since(began)
            duration = self._since(time.perf_counter()) - start
            lines.append(
                {"name": event, "ph": "X", "pid": self._rows[row], "tid": 0, "ts": start, "dur": duration}
            )
            self._write("".join(json.dumps(line) + ",\n" for line in lines))

    def _write(self, text: str) -> None:
        """Write, or end the trace: the job that it is of goes on without it."""
        assert self._file is not None
        try:
            self._file.write(text)
        except OSError as error:
            _logger.warning(
                "the timeline ends here, %s cannot be written: %s", self._file.name, error.strerror
            )
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            _logger.warning("the end of the timeline is missing, %s: %s", file.name, error.strerror)

    def _since(self, moment: float) -> float:
        return round((moment - self._began) * 1e6, 1)
