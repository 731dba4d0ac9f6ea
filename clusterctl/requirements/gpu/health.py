"""``gpu-health``: no GPU waits for a repair, lost data, or reported a grave fault since boot. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.facts.vendors import health as table
from clusterctl.facts.xid import gpu_at, switch_xid_of, xid_of
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.gpus import own_gpus, why_none
from clusterctl.requirements.wording import UNTIL_CLEARED, because
from clusterctl.text.wording import counted, some

if TYPE_CHECKING:
    from clusterctl.facts.model.health import GpuHealth, KernelLog
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "gpu-health"
TITLE = "No GPU waits for a repair, lost data, or reported a grave fault since boot"
READS = frozenset({"gpu", "health", "pci", "system"})
ABOUT = About(
    checks=(
        "memory errors, pending and failed repairs, the recovery that the driver asks for, and grave Xids of "
        "the kernel log since boot"
    ),
    why=(
        "a GPU with a broken memory row or link computes wrong values, runs slowly, or fails hours into a job, "
        "although every program still starts"
    ),
    bootstrap="nothing: a reset ends every program on the GPU, and a broken board must be replaced",
    undo="nothing, because bootstrap changes nothing",
)


def _of_gpu(gpu: GpuHealth) -> list[str]:
    """Return the faults of a GPU in its present state."""
    counts = dict(gpu.counts)
    found = []
    if lost := counts.get("ecc_uncorrected", 0):
        found.append(
            f"GPU {gpu.index}: {counted(lost, 'uncorrectable memory error')} since the driver was loaded"
        )
    for name, value in gpu.states:
        row = table.states().get(name)
        if row is not None and value not in (*row.good, *table.UNREADABLE):
            found.append(f"GPU {gpu.index}: {row.says} ({name.replace('_', ' ')}: {value}): {row.action}")
    return found


def _of_log(log: KernelLog, gpus: tuple[GpuHealth, ...]) -> tuple[list[str], list[str]]:
    """Return the faults and the repaired memory errors that the kernel log reports, each once, with its newest time.

    After a reset the state of the GPU tells whether a memory error was repaired; any other grave Xid stays a reason
    to examine the board until the node is rebooted.
    """
    faults: dict[str, str] = {}
    repaired: dict[str, str] = {}
    for event in log.events:
        when = "" if event.at_s is None else f", {_time(event.at_s)} after boot"
        if xid := xid_of(event.text):
            row = table.xids().get(xid.number)
            if row is None or not row.is_grave or xid.is_nonfatal:
                continue
            said = f"{gpu_at(xid.address, gpus)}: Xid {xid.number}, {row.says}"
            found = repaired if row.kind == "memory" else faults
            found[said] = when  # the newest one
        elif (sxid := switch_xid_of(event.text)) and sxid.is_fatal:
            faults[f"NVSwitch {sxid.switch}: fatal SXid {sxid.number}"] = when
    return [f"{said}{when}" for said, when in faults.items()], [f"{s}{when}" for s, when in repaired.items()]


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return unmet for a GPU that needs a reset, a repair or an examination; the kernel log is read since boot."""
    if facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    if not own_gpus(facts):
        return Decision(NAME, Status.NOT_APPLICABLE, why_none(facts))
    reading, log = facts.health.gpus, facts.health.log
    gpus = reading.or_else(())
    faults = [fault for gpu in gpus for fault in _of_gpu(gpu)]
    # The kernel log of a container is that of its host, whose other devices it shows too.
    reads_log = not facts.in_container
    logged, repaired = _of_log(log.value, gpus) if reads_log and log.value is not None else ([], [])
    faults += logged
    evidence: dict[str, Json] = {
        "gpus": {
            f"GPU {gpu.index}": {**dict(gpu.counts), **dict(gpu.states), "temperature_c": gpu.temperature_c}
            for gpu in gpus
        },
        "log_since_s": None if log.value is None else log.value.first_s,
    }
    warnings = _warnings(gpus, [] if faults else repaired)
    if faults:
        return Decision(NAME, Status.UNMET, f"{some(faults)} ({UNTIL_CLEARED})", evidence, warnings)
    if facts.in_container:
        reason = "this is a container; the driver and the kernel log belong to the host"
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence, warnings)
    if reading.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the health of the GPUs", reading), evidence, warnings)
    unread = [
        f"GPU {gpu.index}: {name.replace('_', ' ')} ({value})"
        for gpu in gpus
        for name, value in gpu.states
        if value in table.UNREADABLE
    ]
    if unread:
        reason = f"nvidia-smi could not read {some(unread)}"
        return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
    if log.value is None and log.status is not ReadStatus.EMPTY:
        return Decision(NAME, Status.UNKNOWN, because("the kernel log", log), evidence, warnings)
    reason = f"{counted(len(gpus), 'GPU')} without a fault"
    return Decision(NAME, Status.MET, reason, evidence, warnings)


def _warnings(gpus: tuple[GpuHealth, ...], repaired: list[str]) -> tuple[str, ...]:
    found = [f"{said} (repaired; replace the GPU if it returns)" for said in repaired]
    for gpu in gpus:
        reasons = [reason.replace("_", " ") for reason in gpu.slowed_by if reason in table.slowed()]
        if reasons:
            found.append(f"GPU {gpu.index}: clocks are lowered at the moment ({', '.join(reasons)})")
    return tuple(found)
