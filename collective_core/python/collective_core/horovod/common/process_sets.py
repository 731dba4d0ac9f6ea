"""Process sets: parts of the ranks that run collectives among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collective_core.horovod import world


class ProcessSet:
    """Some of the ranks. Of use after `init(process_sets=[...])` or `add_process_set`, called on all ranks."""

    def __init__(self, ranks: Sequence[int]) -> None:
        """Name the ranks; raises ValueError unless they are distinct whole numbers."""
        given: Sequence[Any] = ranks
        if any(not isinstance(rank, int) or rank < 0 for rank in given) or len(set(ranks)) != len(ranks):
            raise ValueError(f"a process set is a list of distinct ranks, not {list(ranks)}")
        self._ranks: list[int] | None = sorted(ranks)
        self.process_set_id: int | None = None

    @property
    def ranks(self) -> list[int] | None:
        """The ranks, in order; None after the set was removed."""
        if self.process_set_id == 0:
            return list(range(world.current().size))
        return self._ranks

    def included(self) -> bool:
        """Tell whether this process is one of them."""
        return world.current().rank in self._used()

    def rank(self) -> int:
        """Return this process's place among them; raises ValueError when it is not one of them."""
        ranks = self._used()
        if world.current().rank not in ranks:
            raise ValueError(f"rank {world.current().rank} is not in {self}")
        return ranks.index(world.current().rank)

    def size(self) -> int:
        """Return how many they are."""
        return len(self._used())

    def _used(self) -> list[int]:
        ranks = self.ranks
        if ranks is None or self.process_set_id is None:
            raise ValueError(f"{self} is not in use: add_process_set() it on all ranks")
        return ranks

    def invalidate(self) -> None:
        """Forget the ranks, after the set was removed."""
        self.process_set_id = None
        self._ranks = None

    def __repr__(self) -> str:
        """Show number and ranks."""
        ranks = "all" if self.process_set_id == 0 else self._ranks
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={ranks})"


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0
_sets: dict[int, ProcessSet] = {0: global_process_set}


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Bring a set into use; all ranks, also those outside of it, must call this in one order.

    Raises ValueError for ranks that do not exist or that are a set already.
    """
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    here = world.current()
    ranks = added.ranks
    if added.process_set_id is not None or ranks is None:
        raise ValueError(f"{added} is in use, or was removed: make a new ProcessSet")
    if not ranks or ranks[-1] >= here.size:
        raise ValueError(f"{added} needs at least one rank, and none that is not below {here.size}")
    if any(ranks == known.ranks for known in _sets.values()):
        raise ValueError(f"there is a process set of these ranks already: {ranks}")
    added.process_set_id = here.add_group(ranks)
    _sets[added.process_set_id] = added
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Take a set out of use, on all ranks; false for the set of all ranks, which stays, and for one not in use."""
    number = process_set.process_set_id
    if not number:
        return False
    world.current().remove_group(number)
    del _sets[number]
    process_set.invalidate()
    return True


def process_set_by_id(process_set_id: int) -> ProcessSet:
    """Return a set in use; raises ValueError when there is none of this number."""
    if process_set_id not in _sets:
        raise ValueError(f"process set {process_set_id} is unknown; in use: {sorted(_sets)}")
    return _sets[process_set_id]


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Return all sets in use."""
    return {number: one.ranks or [] for number, one in sorted(_sets.items())}


def forget_all() -> None:
    """Invalidate all sets but that of all ranks, at shutdown."""
    for number in [number for number in _sets if number]:
        _sets.pop(number).invalidate()
