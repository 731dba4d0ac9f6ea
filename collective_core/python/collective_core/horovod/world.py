"""What a process holds between `init` and `shutdown`: its place in the job, its process sets, the timeline."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from collective_core import affinity, environment
from collective_core.communicator import Communicator
from collective_core.environment_table import UNUSED
from collective_core.errors import CollectiveCoreError
from collective_core.horovod.group import Group
from collective_core.horovod.requests import Kind, Request
from collective_core.horovod.timeline import Timeline

_logger = logging.getLogger("collective_core")


class World:
    """One process of the job."""

    def __init__(self, communicator: Communicator) -> None:
        """Take over the communicator of all ranks."""
        self.rank, self.size = communicator.rank, communicator.size
        peers = [communicator.peer(rank) for rank in range(self.size)]
        me = peers[self.rank]
        self.local_rank, self.local_size = me.local_rank, me.local_size
        # The ranks that have my place on their nodes, node by node.
        across = [peer.node for peer in peers if peer.local_rank == me.local_rank]
        self.cross_rank, self.cross_size = across.index(me.node), len(across)
        self.is_homogeneous = len({peer.local_size for peer in peers}) == 1
        affinity.bind_ranks(communicator)
        self.timeline = Timeline()
        self.process = os.getpid()
        self._deadline_s = environment.number("CCORE_TIMEOUT_S", 300, 1e-3, 1e9)
        self._cpu = affinity.cpu_of_thread(self.local_rank, self.local_size)
        self._groups: dict[int, Group] = {0: self._group(communicator)}
        self._next_group = 1
        self._unnamed: dict[tuple[Kind, int | None], int] = {}  # calls without a name, of each process set
        path = environment.text("CCORE_TIMELINE")
        if path and path != "DYNAMIC":  # Horovod's word for a trace that start_timeline will begin
            self.start_timeline(path)
        set_in_vain = [unused.name for unused in UNUSED if unused.name in os.environ]
        if set_in_vain and self.rank == 0:
            _logger.info("without effect here, see docs/environment.md: %s", ", ".join(set_in_vain))

    def _group(self, communicator: Communicator) -> Group:
        return Group(communicator, self.timeline, deadline_s=self._deadline_s, cpu=self._cpu)

    def start_timeline(self, path: str) -> None:
        """Begin the trace, which rank 0 alone writes."""
        if self.rank == 0:
            self.timeline.start(path)

    def group(self, number: int | None) -> Group:
        """Return a process set at work; raises ValueError when this rank is not in it."""
        if number is None or number not in self._groups:
            raise ValueError(f"rank {self.rank} is not in process set {number}, or the set is not in use")
        return self._groups[number]

    def name_of(self, kind: Kind, number: int | None, name: str | None) -> str:
        """Return the name of a call; ranks that make their unnamed calls in one order give them equal names."""
        if name is not None:
            return f"{kind.value}.{name}"
        count = self._unnamed.get((kind, number), 0) + 1
        self._unnamed[kind, number] = count
        return f"{kind.value}.noname.{count}"

    def join(self) -> int:
        """Take part in the calls of the others with zeros until all ranks have joined; returns who did so last."""
        last = self._groups[0].join()
        # A rank that joined early has not made the unnamed calls of the others: from here on all count from zero.
        self._unnamed = {key: count for key, count in self._unnamed.items() if key[1] != 0}
        return last

    def add_group(self, ranks: list[int]) -> int:
        """Make a process set, together with all ranks, and return its number. This rank may be outside of it."""
        number = self._next_group
        request = Request(Kind.PROCESS_SET, f"add_process_set.{number}", [], ranks=ranks)
        self._groups[0].submit(request)
        self._next_group += 1  # also if it fails: ranks outside of it do not see that
        communicator: Communicator | None = request.wait()
        if communicator is not None:
            self._groups[number] = self._group(communicator)
        return number

    def remove_group(self, number: int) -> None:
        """End a process set, together with all ranks."""
        request = Request(Kind.BARRIER, f"remove_process_set.{number}", [])
        self._groups[0].submit(request)
        request.wait()
        if number in self._groups:
            self._groups.pop(number).stop()

    def close(self) -> None:
        """Leave all process sets, the set of all ranks last."""
        for number in sorted(self._groups, reverse=True):
            if number == 0:
                self._write_tuner_log()
            self._groups[number].stop()
        self.timeline.stop()

    def _write_tuner_log(self) -> None:
        path = environment.text("CCORE_AUTOTUNE_LOG")
        if not path or self.rank != 0:
            return
        everybody = self._groups[0]
        everybody.rest()
        try:
            Path(path).write_text(everybody.communicator.tuner_dump())
        except (OSError, CollectiveCoreError) as error:  # the job itself has ended well
            _logger.warning("the tuner's log is not written: %s", error)


_current: World | None = None


def current() -> World:
    """Return the world of this process; raises ValueError before `init`."""
    if _current is None:
        raise ValueError("horovod has not been initialized; call hvd.init() first")
    return _current


def is_current() -> bool:
    """Tell whether there is one."""
    return _current is not None


def set_current(world: World | None) -> None:
    """Keep it, or forget it."""
    global _current  # noqa: PLW0603  # Horovod's API is one world per process
    _current = world
