"""What happened to the hardware of a node between two readings of its health. Pure functions.

Interface, for ``bench``, ``locate`` and everything else that measures:

- ``growth(before, after)`` returns the events of one node: what grew, began or was logged between the two readings.
  What was there before is not an event.
- ``logged(before, after)`` yields the lines of its kernel log between the two readings, with what they mean.
- ``unread(before, after)`` returns sentences about what could not be compared; they do not make figures doubtful.
- ``fleet(before, after)`` does both for all nodes, and ``part()`` of its value is the entry ``health`` of proofs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clusterctl.documents.kinds import Effect
from clusterctl.documents.proof import HardwareEvent, HardwareHealth, Unread
from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.health import DeviceCount, GpuHealth, Health, KernelEvent, KernelLog
from clusterctl.facts.vendors import health as table
from clusterctl.facts.xid import gpu_at, switch_xid_of, xid_of
from clusterctl.transport.base import Failure, HostMap

_LARGEST = {
    "symbol_error": 65535,
    "link_error_recovery": 255,
    "link_downed": 255,
    "port_rcv_errors": 65535,
    "port_rcv_remote_physical_errors": 65535,
    "local_link_integrity_errors": 15,
    "excessive_buffer_overrun_errors": 15,
}
"""Where counters of RDMA ports stop (InfiniBand Architecture Specification, PortCounters)."""
_LOG_SOURCE = "NVIDIA Xid catalogue"
_SWITCH_SOURCE = "NVIDIA Fabric Manager user guide"
_HOT_C, _HOT_MEMORY_C = 85, 95
"""Temperatures in degrees Celsius that acceptance tests call high for a GPU and for its memory (VESSL)."""


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """What happened at one place of a node: ``what`` is a sentence without the place.

    ``by`` is the growth of the counter, or how often the event was logged; None for a state. ``source`` says where
    the meaning comes from.
    """

    place: str
    name: str
    what: str
    effect: Effect
    by: int | None
    meaning: str
    source: str

    @property
    def line(self) -> str:
        """Return the event as one line: the place, what happened, and what it means."""
        return f"{self.place}: {self.what}" + (f" ({self.meaning})" if self.meaning else "")


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The events of every node during a run, and what could not be compared; nodes without either are left out."""

    events: Mapping[str, tuple[HealthEvent, ...]]
    unread: Mapping[str, tuple[str, ...]]

    @property
    def is_doubtful(self) -> bool:
        """Return whether an event makes the figures of the run doubtful."""
        return any(event.effect is not Effect.NOTE for found in self.events.values() for event in found)

    def including(
        self, events: Sequence[tuple[str, HealthEvent]], unread: Mapping[str, tuple[str, ...]]
    ) -> FleetHealth:
        """Return it with more events, by node, and more sentences about what could not be compared."""
        more, missed = dict(self.events), dict(self.unread)
        for node, event in events:
            more[node] = (*more.get(node, ()), event)
        for node, reasons in unread.items():
            missed[node] = (*missed.get(node, ()), *reasons)
        return FleetHealth(more, missed)

    def part(self) -> HardwareHealth:
        """Return the entry ``health`` of a proof."""
        return HardwareHealth(
            doubtful=self.is_doubtful,
            events=tuple(
                HardwareEvent(
                    node=name, place=event.place, name=event.name, what=event.what, effect=event.effect,
                    by=event.by, meaning=event.meaning, source=event.source,
                )
                for name, found in self.events.items()
                for event in found
            ),
            unread=tuple(
                Unread(node=name, reason=reason) for name, found in self.unread.items() for reason in found
            ),
        )  # fmt: skip


def fleet(before: HostMap[Health], after: HostMap[Health]) -> FleetHealth:
    """Return what happened on all nodes between two readings; a node that did not answer is in ``unread``."""
    events: dict[str, tuple[HealthEvent, ...]] = {}
    missed: dict[str, tuple[str, ...]] = {}
    for name, earlier in before.items():
        later = after[name]
        failures = [found for found in (earlier, later) if isinstance(found, Failure)]
        if isinstance(earlier, Failure) or isinstance(later, Failure):
            missed[name] = (f"error counters were not read: {failures[0].message}",)
            continue
        if found := growth(earlier, later):
            events[name] = found
        if reasons := unread(earlier, later):
            missed[name] = reasons
    return FleetHealth(events, missed)


def growth(before: Health, after: Health) -> tuple[HealthEvent, ...]:
    """Return what happened between two readings of one node, the gravest first.

    Counters that are smaller than before were reset or wrapped, and are left out here.
    """
    if _rebooted(before, after):
        what = "the node rebooted between the readings before and after the run"
        return (HealthEvent("node", "rebooted", what, Effect.GRAVE, None, "", "Linux, boot_id"),)
    found = [
        *_of_gpus(before, after),
        *_of_counts(before.counts, after.counts),
        *_of_log(before, after),
    ]
    order = (Effect.GRAVE, Effect.DOUBTFUL, Effect.NOTE)
    return tuple(sorted(found, key=lambda event: order.index(event.effect)))


def unread(before: Health, after: Health) -> tuple[str, ...]:
    """Return sentences about what could not be compared; what a node does not have is not among them.

    A kernel log that cannot be read is mentioned only for a node with GPUs, whose Xids would be in it.
    """
    if _rebooted(before, after):
        return ()
    parts: list[tuple[str, Reading[Any], Reading[Any]]] = [
        ("health of the GPUs", before.gpus, after.gpus),
        ("error counters", before.counts, after.counts),
    ]
    if before.gpus.value is not None and after.gpus.value is not None:
        parts.insert(1, ("NVLink errors", before.nvlinks, after.nvlinks))
    if before.gpus.status is not ReadStatus.ABSENT:
        parts.insert(1, ("kernel log", before.log, after.log))
    found = [_why(what, *readings) for what, *readings in parts if _is_unread(*readings)]
    return (*found, *_log_gap(before.log.value, after.log.value), *_incomparable(before, after))


def _is_unread(*readings: Reading[Any]) -> bool:
    statuses = {reading.status for reading in readings}
    gone = statuses == {ReadStatus.OK, ReadStatus.ABSENT}
    return gone or any(reading.is_unknown for reading in readings)


def _why(what: str, before: Reading[Any], after: Reading[Any]) -> str:
    when, reading = ("before", before) if before.value is None else ("after", after)
    return f"{what} not read {when} the run: {reading.detail or reading.status.value}"


def _rebooted(before: Health, after: Health) -> bool:
    old, new = before.boot.value, after.boot.value
    return old is not None and new is not None and old.boot_id != new.boot_id


def _elapsed_s(before: Health, after: Health) -> float | None:
    old, new = before.boot.value, after.boot.value
    return None if old is None or new is None else max(new.uptime_s - old.uptime_s, 0.001)


def _counted(kind: str, place: str, name: str, by: int, elapsed_s: float | None = None) -> HealthEvent | None:
    """Return the event of a counter that grew; None for a counter without a known meaning."""
    family = name.partition(":")[0]
    row = table.counters().get((kind, family))
    if row is None or by <= 0:
        return None
    what = f"{row.says}: {by} more"
    detail = name.partition(": ")[2]
    if detail:
        what = f"{row.says} ({detail}): {by} more"
    if name.startswith("slowed_us_"):
        what = f"{row.says} for {by / 1e6:.1f} s"
        what += f" of {elapsed_s:.0f} s" if elapsed_s else ""
    effect = row.effect if by >= row.least else Effect.NOTE
    return HealthEvent(place, name, what, effect, by, row.meaning, row.source)


def _of_gpus(before: Health, after: Health) -> Iterator[HealthEvent]:
    if before.gpus.value is None or after.gpus.value is None:
        return
    later = {gpu.uuid: gpu for gpu in after.gpus.value}
    for gpu in before.gpus.value:
        now = later.get(gpu.uuid)
        place = f"GPU {gpu.index}"
        if now is None:
            what = f"nvidia-smi does not list the GPU any more ({gpu.pci_address})"
            yield HealthEvent(place, "missing", what, Effect.GRAVE, None, "", "nvidia-smi")
            continue
        yield from _of_gpu(place, gpu, now, _elapsed_s(before, after))


def _of_gpu(place: str, old: GpuHealth, new: GpuHealth, elapsed_s: float | None) -> Iterator[HealthEvent]:
    counts, was = dict(new.counts), dict(old.counts)
    grown = {name: value - was[name] for name, value in counts.items() if value > was.get(name, value)}
    for name, by in grown.items():
        if name.endswith("_ever") and name.removesuffix("_ever") in grown:
            continue  # the same errors, counted since the board was made
        if event := _counted("gpu", place, name, by, elapsed_s):
            yield event
    links = {(error.link, error.name): error.value for error in old.links}
    for error in new.links:
        more = error.value - links.get((error.link, error.name), error.value)
        if event := _counted("nvlink", f"{place} NVLink {error.link}", error.name, more):
            yield event
    states = dict(old.states)
    for name, value in new.states:
        state = table.states().get(name)
        if state and value not in (*state.good, *table.UNREADABLE) and states.get(name) != value:
            what = f"{state.says} ({name.replace('_', ' ')}: {value})"
            yield HealthEvent(place, name, what, state.effect, None, state.action, state.source)
    for reason in new.slowed_by:
        if reason in table.slowed():
            since = "before and after the run" if reason in old.slowed_by else "at the end of the run"
            row = table.slowed()[reason]
            what = f"{row.says} ({reason.replace('_', ' ')}) {since}"
            what += f", SM clock {new.sm_clock_mhz} MHz" if new.sm_clock_mhz is not None else ""
            yield HealthEvent(place, reason, what, Effect.DOUBTFUL, None, "", row.source)
    hot = [
        f"{what} {degrees} C"
        for what, degrees, most in (
            ("GPU", new.temperature_c, _HOT_C),
            ("memory", new.memory_temperature_c, _HOT_MEMORY_C),
        )
        if degrees is not None and degrees >= most
    ]
    if hot:
        what = f"hot at the end of the run: {', '.join(hot)}"
        yield HealthEvent(place, "temperature", what, Effect.NOTE, None, "", "VESSL, GPU thresholds")


def _of_counts(
    before: Reading[tuple[DeviceCount, ...]], after: Reading[tuple[DeviceCount, ...]]
) -> Iterator[HealthEvent]:
    if before.value is None or after.value is None:
        return
    was = {(count.kind, count.place, count.name): count.value for count in before.value}
    for count in after.value:
        old = was.get((count.kind, count.place, count.name))
        if old is None:
            # The probe leaves out the zeros of PCI devices; any other counter without an earlier value is new.
            old = 0 if count.kind.startswith("pcie") and ("pcie", "", "devices") in was else count.value
        place = f"PCIe device {count.place}" if count.kind.startswith("pcie") else count.place
        if event := _counted(count.kind, place, count.name, count.value - old):
            yield event


def _incomparable(before: Health, after: Health) -> Iterator[str]:
    """Yield sentences about counters that are smaller than before, or that cannot grow any more."""
    for place, name, old, new in _pairs(before, after):
        if new < old:
            yield f"{place} {name} fell from {old} to {new}: it was reset or wrapped, and its growth is unknown"
        elif new == old == _LARGEST.get(name):
            yield f"{place} {name} is at its largest value ({new}), so that growth would not be visible: clear it"


def _pairs(before: Health, after: Health) -> Iterator[tuple[str, str, int, int]]:
    """Yield place, name, old and new value of every counter with a known meaning that was read twice."""
    was = {(c.kind, c.place, c.name): c.value for c in before.counts.or_else(())}
    for count in after.counts.or_else(()):
        key = (count.kind, count.name.partition(":")[0])
        if (count.kind, count.place, count.name) in was and key in table.counters():
            yield count.place, count.name, was[count.kind, count.place, count.name], count.value
    earlier = {gpu.uuid: gpu for gpu in before.gpus.or_else(())}
    for gpu in after.gpus.or_else(()):
        old = earlier.get(gpu.uuid)
        if old is None:
            continue
        values = dict(old.counts)
        for name, value in gpu.counts:
            if name in values:
                yield f"GPU {gpu.index}", name, values[name], value
        links = {(error.link, error.name): error.value for error in old.links}
        for error in gpu.links:
            if (error.link, error.name) in links:
                yield (
                    f"GPU {gpu.index} NVLink {error.link}",
                    error.name,
                    links[error.link, error.name],
                    error.value,
                )


def logged(before: Health, after: Health) -> Iterator[tuple[KernelEvent, HealthEvent]]:
    """Yield the lines of the kernel log that were logged between two readings of one boot, with what they mean."""
    old, new = before.log.value, after.log.value
    if new is None or (old is None and before.log.status is not ReadStatus.EMPTY) or _rebooted(before, after):
        return
    gpus = after.gpus.or_else(()) or before.gpus.or_else(())
    for line in _new_lines(old, new):
        yield line, _logged(line.text, gpus)


def _of_log(before: Health, after: Health) -> Iterator[HealthEvent]:
    # One event per meaning: a fault may be logged thousands of times.
    alike: dict[tuple[str, str], list[HealthEvent]] = {}
    for _, event in logged(before, after):
        alike.setdefault((event.place, event.what), []).append(event)
    for (_, what), found in alike.items():
        times = f" ({len(found)} times)" if len(found) > 1 else ""
        yield replace(found[0], what=what + times, by=len(found))


def _new_lines(old: KernelLog | None, new: KernelLog) -> Iterator[KernelEvent]:
    """Yield the events that were logged after the first reading: later than its last line, or equal and not in it."""
    since = old.last_s if old else None
    known = Counter(old.events if old else ())
    for event in new.events:
        if known[event] > 0:
            known[event] -= 1
        elif since is None or event.at_s is None or event.at_s >= since:
            yield event


def _logged(text: str, gpus: tuple[GpuHealth, ...]) -> HealthEvent:
    """Return the event of one line, with what it means."""
    if xid := xid_of(text):
        row = table.xids().get(xid.number)
        says = row.says if row else "NVIDIA's Xid catalogue has its meaning"
        is_grave = row is not None and row.is_grave and not xid.is_nonfatal
        what = f"Xid {xid.number}{' (not fatal)' if xid.is_nonfatal else ''}: {says}"
        return HealthEvent(
            gpu_at(xid.address, gpus), f"xid_{xid.number}", what, Effect.GRAVE if is_grave else Effect.DOUBTFUL, None,
            row.action if row and not xid.is_nonfatal else "", row.source if row else _LOG_SOURCE,
        )  # fmt: skip
    if sxid := switch_xid_of(text):
        effect = Effect.GRAVE if sxid.is_fatal else Effect.DOUBTFUL
        what = f"SXid {sxid.number} ({'fatal' if sxid.is_fatal else 'not fatal'})"
        action = (
            "1. reset all GPUs and switches of the node, 2. reboot, 3. have the board serviced"
            if sxid.is_fatal
            else ""
        )
        return HealthEvent(
            f"NVSwitch {sxid.switch}", f"sxid_{sxid.number}", what, effect, None, action, _SWITCH_SOURCE
        )  # fmt: skip
    found = table.log_row(text)
    if found is None:
        return HealthEvent("kernel log", "other", text[:160], Effect.DOUBTFUL, None, "", "Linux")
    return HealthEvent("kernel log", "line", found.says, found.effect, None, text[:160], found.source)


def _log_gap(old: KernelLog | None, new: KernelLog | None) -> Iterator[str]:
    """Yield a sentence if the kernel's buffer has lost lines that were logged during the run."""
    if old is None or new is None:
        return
    if old.last_s is not None and new.first_s is not None and new.first_s > old.last_s:
        yield (
            f"kernel log: the lines from {old.last_s:.0f} s to {new.first_s:.0f} s after boot were overwritten or "
            "cleared, so that an Xid there would be missing"
        )
    if new.is_cut and not old.is_cut:
        yield f"kernel log: more than {len(new.events)} lines report faults; only the newest were read"
