"""Xids and SXids in lines of the kernel log: events of NVIDIA's GPUs and NVSwitches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.model.health import GpuHealth

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b")
_OF_NVLINKS = range(144, 151)
# Such an Xid names its unit and whether the driver calls it fatal, both filled up with blanks:
# 145, RLW_RXPIPE      Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 ...
_NONFATAL = re.compile(
    r"(?:, (?:pid|name)=[^,\n]{0,64}){0,2}, {1,8}([A-Z][A-Z0-9_]{1,39}) {1,40}Nonfatal\b"
    r"(?:[^(\n]{1,40}\(0x([0-9a-fA-F]{1,8}) 0x([0-9a-fA-F]{1,8})\b)?"
)
# Nonfatal events of this unit that were promoted need a reset of the GPU (NVIDIA Xid catalogue, "Action 2"): the mask
# and value of the first register before driver 575 and from it on, and the bits of the second one.
_PROMOTED_UNIT = "RLW_RXPIPE"
_PROMOTED_INFO = ((0x7FF, 0x4C2), (0xFF, 0x86))
_PROMOTED_STATUS = 0x7
_SXID = re.compile(
    r"nvidia-nvswitch(\d{1,3}): SXid \(PCI:[0-9a-fA-F:.]{7,16}\): (\d{1,6}), (Fatal|Non-fatal)?"
)


@dataclass(frozen=True, slots=True)
class Xid:
    """An event of a GPU: its number, the address of the GPU on the PCI bus without the function, and its severity.

    ``is_nonfatal`` tells that the driver itself calls the event nonfatal, and that it needs no reset of the GPU.
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
    nonfatal = _NONFATAL.match(text, match.end()) if int(match[2]) in _OF_NVLINKS else None
    is_nonfatal = nonfatal is not None and not _is_promoted(*nonfatal.groups())
    return Xid(int(match[2]), match[1].partition(".")[0].lower(), is_nonfatal)


def _is_promoted(unit: str, info: str | None, status: str | None) -> bool:
    if unit != _PROMOTED_UNIT or info is None or status is None or not int(status, 16) & _PROMOTED_STATUS:
        return False
    return any(int(info, 16) & mask == value for mask, value in _PROMOTED_INFO)


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
