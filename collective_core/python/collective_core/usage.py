"""Report what a communicator used: the variables that were read, and the algorithm of each operation, by size."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

from collective_core import environment
from collective_core.call_counts import Call, CallCounts
from collective_core.communicator import Communicator
from collective_core.enums import Dtype, Operation

_SETTING = re.compile(r"(?P<name>CCORE_\w+)=(?P<value>.*) \((?P<source>[^()]*)\)")
_AS = "environment, as "
_RANK_0 = "rank 0, whose value counts for all"
_NOT_USED = "not used: "
_HIDDEN = "***"
"""The value of a secret in the library's list; that of the environment must not get into a report."""
_NO_OPERATION = (
    Operation.SPLIT,
    Operation.FINALIZE,
    Operation.TUNING,
    Operation.MEM_REGISTER,
    Operation.MEM_DEREGISTER,
)
_BYTES = {
    Dtype.FLOAT64: 8, Dtype.FLOAT32: 4, Dtype.FLOAT16: 2, Dtype.BFLOAT16: 2, Dtype.INT8: 1, Dtype.UINT8: 1,
    Dtype.INT32: 4, Dtype.UINT32: 4, Dtype.INT64: 8, Dtype.UINT64: 8, Dtype.FLOAT8_E4M3: 1, Dtype.FLOAT8_E5M2: 1,
}  # fmt: skip


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
    """Count the operations of a communicator by size and algorithm.

    The library keeps the last 64 operations, so each look counts at most these. `on_device` counts the operations that
    run on the GPU, which the library's list does not show.
    """

    def __init__(self, communicator: Communicator, on_device: CallCounts | None = None) -> None:
        self._communicator = communicator
        self._on_device = on_device or CallCounts()
        self._seen_on_device: Counter[Call] = Counter()
        self._seen = -1
        self._calls: Counter[Call] = Counter()

    def skip(self) -> None:
        """Leave out the operations up to now."""
        self._seen = max((entry.start_ns for entry in self._communicator.trace()), default=self._seen)
        self._seen_on_device = self._on_device.snapshot()

    def look(self) -> None:
        """Count the operations since the last call of `skip` or `look`."""
        # One that still runs has no algorithm yet; it is counted later.
        entries = [e for e in self._communicator.trace() if e.start_ns > self._seen and e.end_ns is not None]
        for entry in entries:
            if entry.operation not in _NO_OPERATION:
                size = entry.count * _BYTES[entry.dtype]
                self._calls[entry.operation.name.lower(), size, entry.algorithm] += 1
        self._seen = max((entry.start_ns for entry in entries), default=self._seen)
        on_device = self._on_device.snapshot()
        self._calls.update(on_device - self._seen_on_device)
        self._seen_on_device = on_device

    def usage(self) -> Usage:
        """Return what was used so far."""
        me = self._communicator
        read, ignored = settings_in_effect(me.dump_config())
        transports = {me.peer(rank).transport for rank in range(me.size) if rank != me.rank}
        return Usage(read, ignored, tuple(sorted(transports)), dict(self._calls))


def settings_in_effect(dump: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of the environment that are in effect, and those without effect with the reason.

    `dump` is the text of `Communicator.dump_config`; what Python code has read is added. Secrets are left out.
    """
    read, ignored = environment.read(), {}
    for name, winner in environment.overridden().items():
        ignored[name] = f"{winner} takes precedence"
    for match in _SETTING.finditer(dump):
        name, value, source = match.groups()
        if value == _HIDDEN:
            continue
        spelled = source.removeprefix(_AS) if source.startswith(_AS) else environment.spelling(name)
        given = os.environ.get(spelled)
        if not given:
            continue
        if (
            source.startswith("environment")
            or source == _RANK_0
            or (source.startswith(_NOT_USED) and given == value)
        ):
            read[spelled] = given
        else:
            ignored[spelled] = "the program sets it itself" if source == "cc_config" else source
            read.pop(spelled, None)
    return read, ignored
