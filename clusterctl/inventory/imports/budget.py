"""How much a text of a few kilobytes may multiply to: ranges, groups in groups, aliases and variables of all hosts."""

from __future__ import annotations

from clusterctl.errors import InventoryError

MOST_HELD = 1 << 21
"""What stays in memory: hosts of groups, and the variables of each host."""
MOST_STEPS = 1 << 23
"""What is looked at and left again."""


class Budget:
    """A count of what a file multiplies to; ``spend`` raises InventoryError once it is too much."""

    def __init__(self, file: str, most: int) -> None:
        self._file = file
        self._most = most
        self._left = most

    def spend(self, count: int, line: int = 0) -> None:
        """Take ``count`` off; ``line`` is where the file asks for it, 0 for the file as a whole."""
        self._left -= count
        if self._left < 0:
            place = f"{self._file}:{line}" if line else self._file
            raise InventoryError(
                f"{place}: ranges, groups and variables multiply to more than {self._most} values",
                hint="import a part of the file, or list each host once",
            )
