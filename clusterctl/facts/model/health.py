"""Facts about the health of a node: error counters, the state of its GPUs, and events of its kernel log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clusterctl.facts.base import Part, Reading, ReadStatus

_NOT_PROBED: Reading[Any] = Reading(None, ReadStatus.FAILED, "not probed")


@dataclass(frozen=True, slots=True)
class LinkErrors(Part):
    """One error counter of one NVLink of a GPU."""

    link: int
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class GpuHealth(Part):
    """What nvidia-smi reports about the health of one GPU; what the GPU or driver does not report is left out."""

    index: int
    uuid: str
    pci_address: str
    counts: tuple[tuple[str, int], ...]
    """Counters by name, such as ``ecc_corrected``; ``slowed_us_*`` count microseconds of lowered clocks."""
    states: tuple[tuple[str, str], ...]
    """States by name, such as ``remap_pending`` -> ``No``; also counters that cannot be read, with the reason."""
    slowed_by: tuple[str, ...]
    """The active reasons for lowered clocks, such as ``hw_thermal_slowdown``; not an idle GPU."""
    temperature_c: int | None
    memory_temperature_c: int | None
    sm_clock_mhz: int | None
    links: tuple[LinkErrors, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelEvent(Part):
    """One line of the kernel log that reports a fault, and its time in seconds since boot (None: without time)."""

    at_s: float | None
    text: str


@dataclass(frozen=True, slots=True)
class KernelLog(Part):
    """The faults in the kernel's log buffer; ``first_s`` and ``last_s`` are the times of its first and last line.

    ``is_cut``: there were more faults than the probe prints, and the oldest of them are missing.
    """

    first_s: float | None
    last_s: float | None
    events: tuple[KernelEvent, ...]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class DeviceCount(Part):
    """One counter of a device: ``ethernet``, ``eth0``, ``rx_errors``, 5."""

    kind: str
    place: str
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Boot(Part):
    """The identifier of the present boot, and the seconds since then."""

    boot_id: str
    uptime_s: float


@dataclass(frozen=True, slots=True)
class Health(Part):
    """The health of a node at one moment. ``counts`` are read only if the subject ``counters`` was requested."""

    boot: Reading[Boot] = field(default=_NOT_PROBED)
    gpus: Reading[tuple[GpuHealth, ...]] = field(default=_NOT_PROBED)
    nvlinks: Reading[int] = field(default=_NOT_PROBED)
    """The number of NVLinks whose error counters were read."""
    log: Reading[KernelLog] = field(default=_NOT_PROBED)
    counts: Reading[tuple[DeviceCount, ...]] = field(default=_NOT_PROBED)
