"""Report what a communicator used: the variables that were read, and the algorithm of each operation, by size."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from collective_core import environment
from collective_core.call_counts import Call, CallCounts
from collective_core.communicator import Communicator
from collective_core.enums import Operation, SettingSource
from collective_core.observation import Setting

_NO_OPERATION = (
    Operation.SPLIT,
    Operation.FINALIZE,
    Operation.TUNING,
    Operation.MEM_REGISTER,
    Operation.MEM_DEREGISTER,
    Operation.MEETING,
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Hold what one rank used.

    `read`: variables of the environment that are in effect, as they were spelled; `ignored`: those that were read and
    have no effect, with the reason. `calls`: counts by operation, size in bytes and algorithm.
    """

    read: dict[str, str]
    ignored: dict[str, str]
    transports: tuple[str, ...]
    calls: dict[tuple[str, int, str], int]


class UsageRecorder:
    """Count the operations of a communicator by size and algorithm, without those that are skipped.

    `on_device` counts the operations that run on the GPU, which the communicator does not count.
    """

    def __init__(self, communicator: Communicator, on_device: CallCounts | None = None) -> None:
        self._communicator = communicator
        self._on_device = on_device or CallCounts()
        self._seen: Counter[Call] = Counter()
        self._calls: Counter[Call] = Counter()

    def skip(self) -> None:
        """Leave out the operations since the last call of `skip` or `look`."""
        self._seen = self._counted()

    def look(self) -> None:
        """Count the operations since the last call of `skip` or `look`."""
        now = self._counted()
        self._calls.update(now - self._seen)
        self._seen = now

    def usage(self) -> Usage:
        """Return what was used so far."""
        me = self._communicator
        read, ignored = settings_in_effect(me.settings())
        transports = {me.peer(rank).transport for rank in range(me.size) if rank != me.rank}
        return Usage(read, ignored, tuple(sorted(transports)), dict(self._calls))

    def _counted(self) -> Counter[Call]:
        found = self._on_device.snapshot()
        for one in self._communicator.counts():
            if one.operation not in _NO_OPERATION:
                found[one.operation.name.lower(), one.size_bytes, one.algorithm] += one.calls
        return found


def settings_in_effect(settings: Iterable[Setting]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of the environment that are in effect, and those without effect with the reason.

    What Python code has read is added. Secrets are left out.
    """
    read, ignored = environment.read(), {}
    for name, winner in environment.overridden().items():
        ignored[name] = f"{winner} takes precedence"
    for setting in settings:
        given = os.environ.get(setting.spelled) if setting.spelled else None
        if not given or setting.is_secret:
            continue
        if setting.source in (SettingSource.ENVIRONMENT, SettingSource.RANK_0):
            read[setting.spelled] = given
        elif setting.source is SettingSource.NOT_USED and given == setting.value:
            read[setting.spelled] = given  # it is switched off, as requested
        else:
            by_program = setting.source is SettingSource.CONFIG
            ignored[setting.spelled] = (
                "the program sets it itself" if by_program else f"not used: {setting.note}"
            )
            read.pop(setting.spelled, None)
    return read, ignored
