"""Show how far a running ``locate`` is: rank 0 prints a record for each window and each round."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

from clusterctl.launch.viewer import Viewer
from clusterctl.workloads.locate.rounds import count
from clusterctl.workloads.records import MARK

_RECORD = re.compile(
    re.escape(MARK) + r'\{"kind": "locate-(?:repeated", "round": ([0-9]{1,9}),|(?!repeated)([a-z]{1,20})")'
)
_OVERLAP = 80
"""Characters of a text that may be the beginning of a mark that the next text ends."""


class LocateViewer(Viewer):
    """Tell ``say`` the phase of a launch of so many nodes, and the number of its rounds so far."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._nodes = 0
        self._last = ""
        self._seen: dict[str, int] = {}

    def started(self, nodes: int) -> None:
        """Note that a launch of so many nodes starts."""
        with self._lock:
            self._nodes, self._last, self._seen = nodes, "", {}

    def said(self, text: str) -> None:
        """Count the records in what rank 0 printed."""
        with self._lock:
            last = self._last + text
            found = list(_RECORD.finditer(last))
            for one in found:
                if one[1]:
                    self._seen["repeated"] = int(one[1])
                else:
                    self._seen[one[2]] = self._seen.get(one[2], 0) + 1
            self._last = last[max(found[-1].end() if found else 0, len(last) - _OVERLAP) :]
            state = self._state() if found else ""
        if state:
            self._say(state)

    def _state(self) -> str:
        """Return the latest phase, in the order in which they follow each other."""
        seen, first = self._seen, count(self._nodes)
        if seen.get("repeated"):
            return f"random pairs, round {seen['repeated']}"
        if seen.get("cause"):
            return f"why it is slow, round {seen['cause']}"
        if seen.get("round", 0) > first:
            return f"confirming, round {seen['round'] - first}"
        if seen.get("round"):
            return f"pairs, round {seen['round']} of {first}"
        return f"each rank alone, window {seen['window']}" if seen.get("window") else ""
