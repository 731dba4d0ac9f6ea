"""Xids and SXids in lines of the kernel log: events of NVIDIA's GPUs and NVSwitches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.model.health import GpuHealth

# An NVLink's Xid (144 to 150) tells by its third word whether the driver calls it fatal.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b(?:, \S{1,40} (Nonfatal)\b)?")
_SXID = re.compile(
    r"nvidia-nvswitch(\d{1,3}): SXid \(PCI:[0-9a-fA-F:.]{7,16}\): (\d{1,6}), (Fatal|Non-fatal)?"
)


@dataclass(frozen=True, slots=True)
class Xid:
    """An event of a GPU: its number, the address of the GPU on the PCI bus without the function, and its severity.

    ``is_nonfatal`` tells that the driver itself calls the event nonfatal.
    """

    number: int
    address: str
    is_nonfatal: bool = False


@dataclass(frozen=True, slots=True)
class SwitchXid:
    """An event of an NVSwitch: its number, the number of the switch, and whether the driver calls it fatal."""

    number: int
    switch: int
    is_fatal: bool


def xid_of(text: str) -> Xid | None:
    """Return the Xid that a line reports, None if it reports none."""
    match = _XID.search(text)
    if match is None:
        return None
    return Xid(int(match[2]), match[1].partition(".")[0].lower(), match[3] is not None)


def switch_xid_of(text: str) -> SwitchXid | None:
    """Return the SXid that a line reports, None if it reports none."""
    match = _SXID.search(text)
    return SwitchXid(int(match[2]), int(match[1]), match[3] == "Fatal") if match else None


def gpu_at(address: str, gpus: tuple[GpuHealth, ...]) -> str:
    """Return the name of the GPU at a PCI address, or the address if the GPU is not listed."""
    for gpu in gpus:
        if gpu.pci_address.partition(".")[0] == address:
            return f"GPU {gpu.index}"
    return f"GPU at {address}"
