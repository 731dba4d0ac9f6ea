"""monitored_barrier: a barrier that names the ranks which did not come.

It goes through torch's store and not through the communicator, whose first timeout would end it: the ranks that came
can go on. Rank 0 waits for one key of each other rank, then answers each; the keys are removed again.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from collective_core.torch.work import CcoreBackendError

_OK = b"ok"
_GRACE_S = 2.0
"""Rank 0 waits to the end of the timeout for a rank that does not come, and only then answers those that did."""


class MonitoredBarrier:
    """The barriers of one group, which the ranks count alike."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        """Use the group's own part of the store."""
        self._store = store
        self._rank = rank
        self._size = size
        self._count = 0

    def run(self, timeout_s: float, *, wait_all_ranks: bool) -> None:
        """Return when all have come; raises CcoreBackendError with the first rank missing, or with all."""
        self._count += 1
        if self._rank == 0:
            self._lead(timeout_s, wait_all_ranks)
        else:
            self._follow(timeout_s)

    def _key(self, kind: str, rank: int) -> str:
        return f"ccore_monitored_barrier/{self._count}/{kind}/{rank}"

    def _lead(self, timeout_s: float, wait_all_ranks: bool) -> None:
        deadline = time.monotonic() + timeout_s
        arrived: list[int] = []
        missing: list[int] = []
        late = False
        for rank in range(1, self._size):
            left_s = deadline - time.monotonic()
            late = left_s <= 0 and not wait_all_ranks
            if late:
                break
            # With wait_all_ranks, those that came meanwhile are still to be distinguished from those that did not.
            if self._taken(self._key("arrived", rank), max(left_s, 0.001)) is not None:
                arrived.append(rank)
                continue
            missing.append(rank)
            if not wait_all_ranks:
                break
        problem = _problem(timeout_s, arrived, missing, late=late, listed=wait_all_ranks)
        for rank in range(1, self._size):
            if rank not in missing:
                self._store.set(self._key("answer", rank), problem.encode() or _OK)
        if problem:
            raise CcoreBackendError(f"[Rank 0]: {problem}")

    def _follow(self, timeout_s: float) -> None:
        self._store.set(self._key("arrived", self._rank), _OK)
        patience_s = timeout_s + _GRACE_S
        answer = self._taken(self._key("answer", self._rank), patience_s)
        if answer == _OK:
            return
        cause = f"none came in {patience_s:.3f} s" if answer is None else answer.decode(errors="replace")
        raise CcoreBackendError(
            f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
            f"send/recv from rank 0. Please check rank 0 logs for faulty rank. Rank 0's answer: {cause}"
        )

    def _taken(self, key: str, timeout_s: float) -> bytes | None:
        """The value of a key, which is then removed; None if it does not come in time."""
        try:
            self._store.wait([key], timedelta(seconds=timeout_s))
        except RuntimeError as error:
            # What torch raises differs between stores and releases; any of it but a timeout is fatal.
            if "imeout" in str(error) or "imed out" in str(error):
                return None
            raise
        value = bytes(self._store.get(key))
        self._store.delete_key(key)
        return value


def _problem(timeout_s: float, arrived: list[int], missing: list[int], *, late: bool, listed: bool) -> str:
    """What went wrong, in the words of torch's own barrier, for which programs may look; empty if nothing did."""
    milliseconds = int(timeout_s * 1000)
    if late:
        came = ", ".join(map(str, arrived))
        done = f"Ranks {came} successfully processed" if came else "No ranks successfully processed"
        return f"Rank 0 timed out in monitoredBarrier after {milliseconds} ms. {done} in monitoredBarrier."
    if not missing:
        return ""
    ranks = ", ".join(map(str, missing))
    return f"{'Ranks' if listed else 'Rank'} {ranks} failed to pass monitoredBarrier in {milliseconds} ms"
