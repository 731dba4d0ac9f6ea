"""Rolling bootstrap: split nodes into batches and limit how many may fail before no other is started."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from clusterctl.errors import UsageError

T = TypeVar("T")
_AMOUNT = re.compile(r"([0-9]{1,9})(%?)\Z")


def amount(option: str, text: str, total: int) -> int:
    """Return the number of nodes that ``8`` or ``25%`` (rounded up) of ``total`` means, at least 1.

    Raises UsageError if ``text`` is neither a positive count nor a percentage from 1% to 100%.
    """
    found = _AMOUNT.match(text)
    value = int(found[1]) if found else 0
    if found is None or value < 1 or (found[2] and value > 100):
        raise UsageError(
            f"{option} must be a positive number or a percentage of nodes, not {text[:60]!r}",
            hint="give a count (8) or a percentage (25%)",
        )
    return max(1, math.ceil(total * value / 100)) if found[2] else value


@dataclass(frozen=True, slots=True)
class Rolling:
    """``batch`` and ``max_failures`` as given: a count or a percentage; None for no limit."""

    batch: str | None = None
    max_failures: str | None = None

    def check(self) -> None:
        """Raise UsageError if ``batch`` or ``max_failures`` is not valid."""
        self.failures_allowed(1)
        list(self.batches((), 1))

    def failures_allowed(self, total: int) -> int | None:
        """Return how many of ``total`` nodes must fail before no other is started; None for no limit."""
        return None if self.max_failures is None else amount("--max-failures", self.max_failures, total)

    def batches(self, nodes: Sequence[T], total: int) -> Iterator[tuple[T, ...]]:
        """Split nodes into batches in their order; percentages refer to ``total``."""
        size = max(1, len(nodes)) if self.batch is None else amount("--batch", self.batch, total)
        for start in range(0, len(nodes), size):
            yield tuple(nodes[start : start + size])
