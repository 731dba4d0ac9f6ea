"""The facts of a node's devices: the PCI tree with its ACS words, and GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Part, Reading, ReadStatus

ACS_FLAGS = {
    "source-validation": 0x01,
    "translation-blocking": 0x02,
    "request-redirect": 0x04,
    "completion-redirect": 0x08,
    "upstream-forwarding": 0x10,
    "egress-control": 0x20,
    "direct-translated": 0x40,
}
"""Bits of the ACS capability and control words (PCI Express Base Specification, Access Control Services)."""


@dataclass(frozen=True, slots=True)
class Acs(Part):
    """The ACS extended capability of a port: offset in bytes, capability word (+4) and control word (+6)."""

    offset: int
    capability: int
    control: int

    @property
    def enabled(self) -> tuple[str, ...]:
        """Names of the control bits that are set."""
        return tuple(name for name, bit in ACS_FLAGS.items() if self.control & bit)


@dataclass(frozen=True, slots=True)
class Bridge(Part):
    """A PCI-to-PCI bridge.

    ``kind`` is root-port, upstream-port, downstream-port, pcie-to-pci, pci-to-pcie or pci; None if the
    capability list could not be read (needs root). ``acs`` is ``absent`` on a port without the capability,
    ``denied`` without root, ``failed`` if the extended configuration space is not accessible.
    """

    kind: str | None
    acs: Reading[Acs]


@dataclass(frozen=True, slots=True)
class Link(Part):
    """A PCIe link's current and maximum speed (GT/s) and width (lanes); None if the kernel does not report it."""

    speed_gtps: float | None
    width: int | None
    max_speed_gtps: float | None
    max_width: int | None


@dataclass(frozen=True, slots=True)
class PciDevice(Part):
    """One PCI function; ``path`` lists the addresses from the root port down to this device."""

    address: str
    class_code: str  # six hexadecimal digits, e.g. 030200
    vendor: str  # four hexadecimal digits
    device: str
    driver: str | None
    numa_node: int | None
    iommu_group: int | None
    path: tuple[str, ...]
    link: Link
    bridge: Bridge | None
    physical_function: str | None = None

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether it is a display or 3D controller from NVIDIA."""
        return self.vendor == "10de" and self.class_code[:2] == "03"

    @property
    def is_amd_accelerator(self) -> bool:
        """Whether it is an AMD GPU for computing: a 3D, other display or accelerator function, no VGA controller."""
        return self.vendor == "1002" and self.class_code[:4] in ("0302", "0380", "1200")

    @property
    def is_nvswitch(self) -> bool:
        """Whether it is an NVSwitch up to NVLink 4, a PCI bridge of the class "other" (0680)."""
        return self.vendor == "10de" and self.class_code.startswith("0680")


@dataclass(frozen=True, slots=True)
class Pci(Part):
    """The PCI tree in address order."""

    devices: Reading[tuple[PciDevice, ...]]

    def device(self, address: str) -> PciDevice | None:
        """Return the device at a full address (``0000:3b:00.0``)."""
        return next((d for d in self.devices.or_else(()) if d.address == address), None)

    @property
    def nvidia_gpus(self) -> tuple[PciDevice, ...]:
        """The GPUs on the PCI bus, with or without a driver."""
        return tuple(d for d in self.devices.or_else(()) if d.is_nvidia_gpu)

    @property
    def amd_accelerators(self) -> tuple[PciDevice, ...]:
        """AMD's GPUs for computing on the PCI bus, with or without a driver."""
        return tuple(d for d in self.devices.or_else(()) if d.is_amd_accelerator)


@dataclass(frozen=True, slots=True)
class Gpu(Part):
    """One GPU as nvidia-smi reports it; None for values that it does not support or report."""

    index: int
    uuid: str
    name: str
    pci_address: str
    driver_version: str
    memory_bytes: int | None
    persistence: bool | None
    ecc: bool | None
    uncorrected_ecc_errors: int | None
    link: Link
    """The PCIe link; its speeds are derived from the PCIe generation."""
    mig: bool | None
    compute_mode: str | None
    fabric_state: str | None = None
    """Completed, In Progress, Not Started; Not Supported outside an NVLink fabric; None on drivers without it."""
    fabric_status: str | None = None
    fault: str | None = None
    """The fault that nvidia-smi prints instead of values of a GPU that stopped working: ``GPU requires reset``."""


@dataclass(frozen=True, slots=True)
class GpuTopology(Part):
    """``nvidia-smi topo -m``: the columns' names and, for each row, the connection to each column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    nic_names: tuple[tuple[str, str], ...]

    def connection(self, row: str, column: str) -> str | None:
        """Return e.g. ``NV18``, ``PIX``, ``SYS``; None if row or column is not in the matrix."""
        cells = dict(self.rows).get(row)
        return cells[self.columns.index(column)] if cells is not None and column in self.columns else None


@dataclass(frozen=True, slots=True)
class NvLinks(Part):
    """One GPU's NVLinks in order: GB/s per direction, None for an inactive link."""

    gpu: int
    link_gbps: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class GpuDriver(Part):
    """The loaded kernel driver (/proc/driver/nvidia/version) and its flavour: ``open`` or ``proprietary``."""

    version: str
    flavour: str


_NOT_ASKED: Reading[str] = Reading(None, ReadStatus.ABSENT, "not probed")


@dataclass(frozen=True, slots=True)
class GpuFacts(Part):
    """GPUs and their driver."""

    devices: Reading[tuple[Gpu, ...]]
    topology: Reading[GpuTopology]
    nvlinks: Reading[tuple[NvLinks, ...]]
    driver: Reading[GpuDriver]
    module_license: Reading[str]
    """``modinfo -F license nvidia``: Dual MIT/GPL (open) or NVIDIA (proprietary)."""
    module_version: Reading[str] = _NOT_ASKED
    """``modinfo -F version nvidia``: the module on disk, which the next load uses."""
    fabric_manager: Reading[str] = _NOT_ASKED
    """The version of the installed fabric manager."""
    fabric_devices: tuple[str, ...] = ()
    """Device files of NVSwitches and of IMEX channels."""

    @property
    def open_kernel_module(self) -> bool | None:
        """Whether the open kernel modules are in use; None if neither driver nor license was read."""
        if self.driver.value is not None:
            return self.driver.value.flavour == "open"
        return None if self.module_license.value is None else "GPL" in self.module_license.value
