"""The table of what error counters, states of GPUs and lines of the kernel log mean (``health.yaml``)."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from clusterctl.documents.kinds import Effect
from clusterctl.facts.vendors.tables import Sourced, Text, read

_STRICT = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CounterRow(Sourced):
    """Counters with one meaning: ``says`` names what was counted. Growth below ``least`` is a note."""

    kind: Text
    names: tuple[Text, ...]
    says: Text
    effect: Effect
    meaning: Text
    least: int = 1


class StateRow(Sourced):
    """States of a GPU with one meaning; any value that is not ``good`` needs the action."""

    names: tuple[Text, ...]
    good: tuple[Text, ...]
    says: Text
    effect: Effect
    action: Text


class SlowedRow(Sourced):
    """Reasons for lowered clocks that are faults."""

    says: Text
    names: tuple[Text, ...]


class XidRow(Sourced):
    """Xids with one meaning, and what to do."""

    numbers: tuple[int, ...]
    kind: Literal["memory", "device", "application", "consequence"]
    says: Text
    action: Text

    @property
    def is_grave(self) -> bool:
        """Return whether the hardware, its firmware or its driver failed."""
        return self.kind in ("memory", "device")


class LogRow(Sourced):
    """Lines of the kernel log that contain one of the texts."""

    texts: tuple[Text, ...]
    says: Text
    effect: Effect


class HealthTables(BaseModel):
    """``health.yaml``."""

    model_config = _STRICT

    counters: tuple[CounterRow, ...]
    states: tuple[StateRow, ...]
    slowed: tuple[SlowedRow, ...]
    xids: tuple[XidRow, ...]
    log: tuple[LogRow, ...]


@cache
def tables() -> HealthTables:
    """Return the tables of counters, states and events."""
    return read("health", HealthTables)


UNREADABLE = frozenset({"Insufficient Permissions", "Unknown Error"})
"""What nvidia-smi prints instead of a value that it may not or cannot read; it is neither good nor bad."""


@cache
def counters() -> dict[tuple[str, str], CounterRow]:
    """Return the counters by kind and name."""
    return {(row.kind, name): row for row in tables().counters for name in row.names}


@cache
def states() -> dict[str, StateRow]:
    """Return the states of GPUs by name."""
    return {name: row for row in tables().states for name in row.names}


@cache
def slowed() -> dict[str, SlowedRow]:
    """Return the reasons for lowered clocks that are faults, by name."""
    return {name: row for row in tables().slowed for name in row.names}


@cache
def xids() -> dict[int, XidRow]:
    """Return the Xids by number."""
    return {number: row for row in tables().xids for number in row.numbers}


def log_row(text: str) -> LogRow | None:
    """Return the meaning of a line of the kernel log that is not an Xid; None without one."""
    return next((row for row in tables().log if any(part in text for part in row.texts)), None)
