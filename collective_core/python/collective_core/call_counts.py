"""Count operations that the communicator's trace does not show, because they run on the GPU."""

from __future__ import annotations

import threading
from collections import Counter

# Operation, size in bytes, algorithm.
Call = tuple[str, int, str]


class CallCounts:
    """How often each operation of a size ran by each algorithm. Safe from any thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._counts: Counter[Call] = Counter()

    def add(self, operation: str, size_bytes: int, algorithm: str) -> None:
        """Count one."""
        with self._lock:
            self._counts[operation, size_bytes, algorithm] += 1

    def snapshot(self) -> Counter[Call]:
        """Return a copy of the counts."""
        with self._lock:
            return self._counts.copy()
