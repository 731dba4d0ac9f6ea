"""Find what most nodes of a fleet have, counted once for all nodes that are judged together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from clusterctl.requirements.fleet.view import Fleet

T = TypeVar("T")
V = TypeVar("V", bound=Hashable)

FEWEST = 3
"""The fewest voters: with two differing nodes there is no majority."""


def majority(votes: Counter[V]) -> V | None:
    """Return the value that more than half of at least three voters have, or None."""
    if not votes or votes.total() < FEWEST:
        return None
    value, count = votes.most_common(1)[0]
    return value if count * 2 > votes.total() else None


class OncePerFleet(Generic[T]):
    """A function of the fleet that is computed once for all its nodes.

    It keeps a reference to the last fleet, so that the comparison by identity is safe.
    """

    def __init__(self, function: Callable[[Fleet], T]) -> None:
        self._function = function
        self._last: tuple[Fleet, T] | None = None

    def __call__(self, fleet: Fleet) -> T:
        """Return the function's value for this fleet."""
        last = self._last
        if last is None or last[0] is not fleet:
            last = (fleet, self._function(fleet))
            self._last = last
        return last[1]
