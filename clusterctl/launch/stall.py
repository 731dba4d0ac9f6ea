"""Look at the ranks of a user's program that has written nothing for a minute, and say which of them stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable

from clusterctl.launch import failure
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.processes import RankProcess
from clusterctl.launch.ranklog import RankLog
from clusterctl.transport.base import HostMap

FIRST_S = 60.0
"""The silence of all ranks after which they are looked at; each later look waits twice as long."""


class Stall:
    """Follow one launch; ``inspect`` lists the processes of its ranks, ``say`` receives what was found."""

    def __init__(
        self,
        plan: LaunchPlan,
        ranklog: RankLog,
        ended: threading.Event,
        inspect: Callable[[LaunchPlan], HostMap[tuple[RankProcess, ...]]],
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._ranklog = ranklog
        self._ended = ended
        self._inspect = inspect
        self._say = say
        self._next_s = FIRST_S
        self._quiet_s = 0.0
        self._said: set[str] = set()
        self._thread: threading.Thread | None = None

    def look(self) -> float:
        """Start a look at the ranks if it is due, and return for how many seconds no rank has written anything."""
        before, self._quiet_s = self._quiet_s, self._ranklog.quiet_s()
        if self._quiet_s < before:
            self._next_s = FIRST_S
        if self._quiet_s >= self._next_s and not (self._thread and self._thread.is_alive()):
            self._next_s *= 2
            # An unreachable node delays the answer, but not the end of the launch.
            self._thread = threading.Thread(
                target=self._find, args=(self._quiet_s,), name="stall", daemon=True
            )
            self._thread.start()
        return self._quiet_s

    def _find(self, quiet_s: float) -> None:
        seen = self._inspect(self._plan).values_by_node
        if self._ended.is_set() or self._ranklog.quiet_s() < quiet_s:
            return
        found = failure.standing_still(self._plan, seen, {})
        if found is None or (found.rank is None and len(seen) < len(self._plan.placements)):
            return
        text = found.text if found.rank is not None else "all ranks are alive"
        if text not in self._said:
            self._said.add(text)
            self._say(f"no rank wrote anything for {quiet_s:.0f} s: {text}")
