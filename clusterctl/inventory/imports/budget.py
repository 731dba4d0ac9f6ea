"""Limits for the expansion of ranges, nested groups, aliases and variables, which a short text can multiply."""

from __future__ import annotations

from clusterctl.errors import InventoryError

MOST_HELD = 1 << 21
"""Maximum number of values in memory: hosts of groups, and the variables of each host."""
MOST_STEPS = 1 << 23
"""Maximum number of values that are visited."""


class Budget:
    """A count of the values that a file expands to; ``spend`` raises InventoryError above the limit."""

    def __init__(self, file: str, most: int) -> None:
        self._file = file
        self._most = most
        self._left = most

    def spend(self, count: int, line: int = 0) -> None:
        """Subtract ``count``; ``line`` is the line of the values in the file, 0 for the file as a whole."""
        self._left -= count
        if self._left < 0:
            place = f"{self._file}:{line}" if line else self._file
            raise InventoryError(
                f"{place}: ranges, groups and variables expand to more than {self._most} values",
                hint="import a part of the file, or list each host once",
            )
