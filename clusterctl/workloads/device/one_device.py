"""Measure the rows of one device in a process of its own: a GPU that fails does not end the rows of the others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from clusterctl.workloads import records
from clusterctl.workloads.device import copies, gemm, overlap, pattern, sustained, training, twice
from clusterctl.workloads.device.measured import DeviceMeasured
from clusterctl.workloads.device.sensors import CpuSensors, NvidiaSensors, Sensors
from clusterctl.workloads.device.timing import CPU_EFFORT, GPU_BURSTS, GPU_EFFORT
from clusterctl.workloads.ranks import uuid_of

ROWS = ("gemm", "hbm", "host-link", "pattern", "sdc", "training", "sustained")
"""The rows of one device, in the order in which they run."""
PAIRS = "nvlink"
"""The row of all devices together, one pair after the other."""
OVERLAP = "overlap"
"""The row of all devices at the same time."""


@dataclass(frozen=True)
class DeviceRequest:
    """What is measured: rows, types of GEMM, seconds of the two rows that last, and the lock of the host link."""

    rows: tuple[str, ...]
    types: tuple[str, ...]
    sdc_s: float
    sustained_s: float
    lock: Path | None
    timeout_s: float


def devices(kind: str, indices: Sequence[int]) -> list[torch.device]:
    """Return the devices with these indices; on a CPU all of them are this CPU."""
    return [torch.device("cuda", index) if kind == "cuda" else torch.device("cpu") for index in indices]


def pci_of(device: torch.device) -> str | None:
    """Return the PCI address of a GPU as sysfs writes it; None if this torch does not report it."""
    # Older versions of torch have only some of these, and its types have none.
    own: Any = torch.cuda.get_device_properties(device)
    if not hasattr(own, "pci_bus_id"):
        return None
    return f"{own.pci_domain_id:04x}:{own.pci_bus_id:02x}:{own.pci_device_id:02x}.0"


def sensors_of(device: torch.device) -> tuple[Sensors | None, str | None]:
    """Return the sensors of a device, or None and the reason."""
    if device.type != "cuda":
        return CpuSensors(), None
    uuid = uuid_of(device)
    if uuid is None:
        return None, f"torch {torch.__version__} does not report the UUID of a GPU"
    try:
        return NvidiaSensors(uuid), None
    except (OSError, AttributeError) as error:
        return None, str(error)


def link_of(sensors: Sensors | None) -> str:
    """Return the name of the link to the host: ``PCIe 5 x16``."""
    known = sensors.constants() if sensors is not None else {}
    if "pcie_generation" not in known or "pcie_width" not in known:
        return "host link"
    return f"PCIe {known['pcie_generation']} x{known['pcie_width']}"


def describe(index: int, device: torch.device, sensors: Sensors | None, why: str | None) -> None:
    """Write what this device is, and who else uses it, as a record."""
    fields: dict[str, object] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.get_device_properties(device)
        fields |= {"name": own.name, "uuid": uuid_of(device), "pci": pci_of(device)}
        fields |= {"memory_bytes": total, "free_bytes": free}
    else:
        fields |= {"name": "cpu", "threads": torch.get_num_threads()}
    if isinstance(sensors, NvidiaSensors):
        # This process is one of them.
        fields["other_processes"] = max(0, (sensors.processes() or 1) - 1)
    if sensors is not None:
        fields |= sensors.constants()
    records.emit("device", gpu=index, pid=os.getpid(), sensors=why or "read", **fields)


def use_near_cores(pci: str, sysfs: Path = Path("/sys")) -> None:
    """Run this process on the cores beside the GPU: pinned memory is then on the GPU's NUMA node."""
    try:
        text = (sysfs / "bus/pci/devices" / pci / "local_cpulist").read_text(encoding="ascii").strip()
        near: set[int] = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            near |= set(range(int(first), int(last or first) + 1))
        own = near & os.sched_getaffinity(0)
        if own:
            os.sched_setaffinity(0, own)
    except (OSError, ValueError):
        return  # a container without sysfs: the rate may then be that of the other NUMA node


def _row(
    name: str, index: int, device: torch.device, request: DeviceRequest, sensors: Sensors | None
) -> Iterator[DeviceMeasured]:
    effort = GPU_EFFORT if device.type == "cuda" else CPU_EFFORT
    if name == "gemm":
        return gemm.measure(device, GPU_BURSTS if device.type == "cuda" else effort, request.types)
    if name == "hbm":
        return copies.within(device, effort)
    if name == "host-link":
        return copies.host_link(device, effort, request.lock, link_of(sensors))
    if name == "pattern":
        return pattern.measure(device)
    if name == "sdc":
        return twice.measure(device, request.sdc_s)
    if name == OVERLAP:
        return overlap.measure(device, request.timeout_s)
    if name == "training":
        return training.measure(device)
    return sustained.measure(
        device, request.sustained_s, sensors, partial(records.emit, "device-sample", gpu=index)
    )


def run(index: int, device: torch.device, request: DeviceRequest) -> int:
    """Measure the rows of one device; return 1 if a row failed."""
    try:
        if device.type == "cuda":
            torch.cuda.set_device(device)
            # The first call that reaches the GPU: a broken one fails here.
            torch.zeros(1, device=device).cpu()
            pci = pci_of(device)
            if pci is not None:
                use_near_cores(pci)
        sensors, why = sensors_of(device)
        describe(index, device, sensors, why)
    except RuntimeError as error:
        for name in request.rows:
            _failed(name, index, error)
        return 1
    failed = False
    for name in request.rows:
        failed |= not measured(name, index, partial(_row, name, index, device, request, sensors))
        if device.type == "cuda":
            with suppress(RuntimeError):  # a GPU that failed: the next row then reports it
                torch.cuda.empty_cache()
    return int(failed)


def measured(name: str, index: int | None, rows: Callable[[], Iterator[DeviceMeasured]]) -> bool:
    """Write the measurements of one row as records; return whether it reached its end."""
    records.emit("device-row", gpu=index, row=name)
    started = time.monotonic()
    try:
        for found in rows():
            records.emit(
                "device-measured", gpu=index, row=name, name=found.name, value=found.value, unit=found.unit,
                reason=found.reason, detail=found.detail,
            )  # fmt: skip
    except RuntimeError as error:  # torch's errors, those of CUDA and of memory that ran out included
        _failed(name, index, error)
        return False
    records.emit("device-row-end", gpu=index, row=name, seconds=round(time.monotonic() - started, 3))
    return True


def _failed(name: str, index: int | None, error: RuntimeError) -> None:
    reason = " ".join(str(error).split())[:300]
    records.emit("device-failure", gpu=index, row=name, reason=reason)
    sys.stderr.write(f"{'all GPUs' if index is None else f'GPU {index}'}: {name}: {reason}\n")


def run_pairs(chosen: Sequence[torch.device]) -> int:
    """Measure the copies between all devices; return 1 if it failed."""
    effort = GPU_EFFORT if chosen[0].type == "cuda" else CPU_EFFORT
    return int(not measured(PAIRS, None, lambda: copies.pairs(chosen, effort)))
