"""Xids and SXids in lines of the kernel log: events of NVIDIA's GPUs and NVSwitches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.model.health import GpuHealth

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b")
_SXID = re.compile(
    r"nvidia-nvswitch(\d{1,3}): SXid \(PCI:[0-9a-fA-F:.]{7,16}\): (\d{1,6}), (Fatal|Non-fatal)?"
)


@dataclass(frozen=True, slots=True)
class Xid:
    """An event of a GPU: its number, and the address of the GPU on the PCI bus without the function."""

    number: int
    address: str


@dataclass(frozen=True, slots=True)
class SwitchXid:
    """An event of an NVSwitch: its number, the number of the switch, and whether the driver calls it fatal."""

    number: int
    switch: int
    is_fatal: bool


def xid_of(text: str) -> Xid | None:
    """Return the Xid that a line reports, None if it reports none."""
    match = _XID.search(text)
    return Xid(int(match[2]), match[1].partition(".")[0].lower()) if match else None


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
