"""``acs``: no PCIe port between a GPU and its peers redirects their traffic to the root complex.

Redirection makes GPUDirect slow or lets it hang (nccl #304). Bits of the ACS control word: PCI Express Base
Specification, Access Control Services. The kernel's ``disable_acs_redir`` clears request and completion redirect
and egress control (Linux commit aaca43fda742). This module also clears upstream forwarding, which sends
peer-to-peer traffic to the root complex as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from clusterctl.facts.model.devices import ACS_FLAGS, PciDevice
from clusterctl.facts.subjects.gpu_models import is_joined_to_its_cpu, shares_memory_of_its_cpu
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.boot_unit import BootUnit
from clusterctl.requirements.gpus import GIVEN_AWAY
from clusterctl.requirements.packages import by_hand, install
from clusterctl.requirements.rdma import ports as rdma_ports
from clusterctl.requirements.rdma.data_direct import has_connectx_8
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import SetRegister, Step
from clusterctl.requirements.wording import at_boot, because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet


NAME = "acs"
TITLE = "PCIe ACS redirection is off between GPUs and NICs"
READS = frozenset({"configuration", "network", "pci", "rdma", "services", "software", "system"})
ABOUT = About(
    checks="no PCIe port on a GPU-NIC or GPU-GPU path redirects peer-to-peer traffic",
    why=(
        "ACS can redirect traffic between two devices to the root complex; GPUDirect then becomes slow, "
        "hangs or crashes"
    ),
    bootstrap="clears exactly those ports, now and at every boot",
    undo="writes the former word of each port back, and removes the boot unit",
    settings=("requirements.acs",),
)

REGISTER = "ECAP_ACS+6.w"
"""Names the capability instead of a raw offset: the offset differs between device models."""
REDIRECTS = (
    ACS_FLAGS["request-redirect"]
    | ACS_FLAGS["completion-redirect"]
    | ACS_FLAGS["upstream-forwarding"]
    | ACS_FLAGS["egress-control"]
)
AT_BOOT = BootUnit("/usr/local/lib/clusterctl/acs-redirect-off", "clusterctl-acs.service")
NVIDIAS_OWN = "nvidia-acs-disable.service"
"""Unit of NVIDIA's package of the same name (DGX OS): zeroes the ACS control word of every device at boot."""
_BELOW = "a device below is assigned to a virtual machine"
_NO_TRANSLATION = ("iommu=pt", "iommu.passthrough=1", "iommu=off", "intel_iommu=off", "amd_iommu=off")


@dataclass(frozen=True, slots=True)
class _Ports:
    """The ports on the paths between GPUs and their peers, grouped by the state of their ACS control word."""

    on_paths: tuple[PciDevice, ...]
    redirecting: tuple[PciDevice, ...]
    unreadable: tuple[tuple[PciDevice, str], ...]
    left_alone: tuple[PciDevice, ...]
    """On a path as well, but a device below is assigned to a guest, which ACS isolates from host and other guests."""


def _all_gpus(facts: NodeFacts, node: Node) -> tuple[PciDevice, ...]:
    """Return the GPUs selected by the inventory (default: all NVIDIA GPUs), including those assigned to guests."""
    named = node.requirements.acs.gpu_devices
    return select(facts.pci.devices.or_else(()), named) if named else facts.pci.nvidia_gpus


def _gpus_and_nics(facts: NodeFacts, node: Node) -> tuple[tuple[PciDevice, ...], tuple[PciDevice, ...]]:
    settings = node.requirements.acs
    devices = tuple(d for d in facts.pci.devices.or_else(()) if d.driver not in GIVEN_AWAY)
    gpus = tuple(gpu for gpu in _all_gpus(facts, node) if gpu in devices)
    if settings.nic_devices:
        return gpus, select(devices, settings.nic_devices)
    addresses = {device.pci_address for device in rdma_ports.devices(facts, node)}
    return gpus, tuple(device for device in devices if device.address in addresses)


def _ports(facts: NodeFacts, node: Node) -> _Ports:
    found = [facts.pci.device(address) for address in bridges_on_paths(*_gpus_and_nics(facts, node))]
    between = tuple(port for port in found if port is not None and port.bridge is not None)
    guests = {a for d in facts.pci.devices.or_else(()) if d.driver in GIVEN_AWAY for a in d.path[:-1]}
    ports = tuple(port for port in between if port.address not in guests)
    redirecting, unreadable = [], []
    for port in ports:
        assert port.bridge is not None
        acs = port.bridge.acs
        if acs.value is not None:
            if acs.value.control & REDIRECTS:
                redirecting.append(port)
        elif acs.status.value != "absent":
            unreadable.append((port, because(f"the ACS control word of {port.address}", acs)))
    left_alone = tuple(port for port in between if port.address in guests)
    return _Ports(ports, tuple(redirecting), tuple(unreadable), left_alone)


def _word(port: PciDevice) -> str | None:
    acs = port.bridge.acs.value if port.bridge is not None else None
    return None if acs is None else f"{acs.control:04x}"


def _has_owner(facts: NodeFacts) -> bool:
    """Whether NVIDIA's unit clears the ports at every boot.

    A second unit would only hide which of the two cleared them.
    """
    known = facts.services.unit(NVIDIAS_OWN)
    return known is not None and known.enabled == "enabled" and known.active != "failed"


def _owner_failed(facts: NodeFacts) -> bool:
    known = facts.services.unit(NVIDIAS_OWN)
    return known is not None and known.active == "failed"


def _owner_warning(facts: NodeFacts, what: str) -> tuple[str, ...]:
    return (
        (f"{NVIDIAS_OWN} clears the ACS bits of every device at boot, {what}",) if _has_owner(facts) else ()
    )


def _warnings(facts: NodeFacts, gpus: tuple[PciDevice, ...], ports: _Ports) -> tuple[str, ...]:
    """Return warnings about ports left alone, NVIDIA's boot unit and the kernel command line."""
    cmdline = facts.system.cmdline.or_else(())
    warnings = []
    if ports.left_alone:
        warnings.append(f"left alone, {_BELOW}: {some([port.address for port in ports.left_alone])}")
        warnings += _owner_warning(facts, "including those that isolate a guest")
    if _owner_failed(facts):
        warnings.append(f"{NVIDIAS_OWN} failed at boot (see journalctl -u {NVIDIAS_OWN})")
    if ports.redirecting and any("disable_acs_redir=" in word for word in cmdline):
        warnings.append(
            "the kernel command line has pci=disable_acs_redir=, but ports still redirect: an unquoted ';' in the boot "
            "loader's configuration cuts the list off, or bus numbers have changed"
        )
    if any("config_acs=" in word for word in cmdline):
        warnings.append(
            "the kernel command line has pci=config_acs=, which sets ports at every boot: check that it agrees"
        )
    translates = any(gpu.iommu_group is not None for gpu in gpus) and not set(_NO_TRANSLATION) & set(cmdline)
    if translates and facts.system.cmdline.value is not None and facts.in_vm is False:
        warnings.append(
            "the IOMMU may translate the traffic of GPUs and NICs, which is slower: boot with iommu=pt or without "
            f"IOMMU ({at_boot(facts, 'iommu=pt')})"
        )
    return tuple(warnings)


def _by_hand(facts: NodeFacts) -> str:
    """Return what the operator must install by hand; empty if setpci is installed or bootstrap can install it."""
    return by_hand(facts, "pciutils") if facts.software.tool("setpci") is None else ""


def _locked(facts: NodeFacts, ports: _Ports) -> str:
    """Return what the operator must do where the kernel refuses writes to PCI registers; empty elsewhere."""
    if not facts.system.is_locked_down:
        return ""
    listed = "pci=disable_acs_redir=" + ";".join(port.address for port in ports.redirecting)
    return (
        "; the kernel's lockdown (Secure Boot) refuses setpci: turn ACS off in the firmware, or boot with "
        f"{at_boot(facts, listed)}"
    )


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if no port on a GPU's paths redirects; ``source-validation`` alone is harmless.

    Also unmet if an interrupted bootstrap installed only part of what clears the ports at every boot.
    """
    if facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    gpus, nics = _gpus_and_nics(facts, node)
    cmdline = facts.system.cmdline.or_else(())
    evidence: dict[str, Json] = {
        "gpus": [gpu.address for gpu in gpus],
        "nics": [nic.address for nic in nics],
        "iommu": [word for word in cmdline if "iommu" in word or word.startswith("pci=")],
    }
    if not gpus:
        given = _all_gpus(facts, node)
        reason = "all GPUs of this node are assigned to virtual machines" if given else "the node has no GPU"
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    if facts.in_container:
        reason = "this is a container; its PCI ports belong to the host"
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    ports = _ports(facts, node)
    evidence["words"] = {port.address: _word(port) for port in ports.on_paths}
    if facts.in_vm and node.requirements.acs.in_vm == "leave":
        reason = (
            "inside a virtual machine ACS isolates the devices passed through and is left alone (NICs reach GPUs there "
            "with ATS, which mlxconfig turns on from the host: ATS_ENABLED=1)"
        )
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    if not ports.on_paths and ports.left_alone:
        named = some([port.address for port in ports.left_alone])
        reason = f"all ports between a GPU and a peer are left alone, {_BELOW}: {named}"
        return Decision(
            NAME, Status.NOT_APPLICABLE, reason, evidence, _owner_warning(facts, "including these")
        )
    if not ports.on_paths:
        return Decision(
            NAME, Status.NOT_APPLICABLE, "no PCI bridge is on a path between a GPU and a peer", evidence
        )
    if has_connectx_8(facts) and not node.requirements.acs.nic_devices:
        reason = (
            "on ConnectX-8 platforms (GB300, B300) NICs reach GPUs with Data Direct, which needs some ACS bits: set "
            "them port by port with the kernel parameter pci=config_acs="
        )
        unfit = _owner_warning(facts, "including the bits that Data Direct needs")
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence, unfit)
    if not node.requirements.acs.gpu_devices and all(shares_memory_of_its_cpu(gpu) for gpu in gpus):
        reason = (
            "ACS does not apply: these GPUs share the CPU's memory (GB10), so no peer-to-peer traffic crosses "
            "PCIe ports"
        )
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    if not node.requirements.acs.gpu_devices and all(is_joined_to_its_cpu(gpu) for gpu in gpus):
        reason = (
            "ACS does not apply: NICs reach these GPUs through the CPU (NVLink-C2C), so no peer-to-peer traffic "
            "crosses PCIe ports"
        )
        return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
    warnings = _warnings(facts, gpus, ports)
    if ports.redirecting:
        named = some([f"{port.address} ({_word(port)})" for port in ports.redirecting])
        if facts.in_vm is None:
            reason = f"redirection is on at {named}, but it is unknown whether this is a virtual machine"
            return Decision(NAME, Status.UNKNOWN, reason, evidence)
        if _has_owner(facts):
            named += (
                f", although {NVIDIAS_OWN} should clear all ports at boot (see journalctl -u {NVIDIAS_OWN})"
            )
        elif AT_BOOT.has_failed(facts):
            named += (
                f"; {AT_BOOT.unit}, which should clear it, failed at boot (see journalctl -u {AT_BOOT.unit})"
            )
        reason = f"redirection is on at {named}{_locked(facts, ports) or _by_hand(facts)}"
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, _steps(facts, node, ports))
    if ports.unreadable:
        return Decision(NAME, Status.UNKNOWN, some([reason for _, reason in ports.unreadable], 2), evidence)
    # Under lockdown only the firmware or the command line can have cleared the ports, and both last.
    persists = node.requirements.acs.persist and not _has_owner(facts) and not facts.system.is_locked_down
    gap = AT_BOOT.gap(facts) if persists else None
    if gap is not None:
        reason = f"redirection is off now, but nothing clears it at the next boot: {gap}"
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, _steps(facts, node, ports))
    if persists and AT_BOOT.has_failed(facts):
        reason = (
            f"redirection is off now, but {AT_BOOT.unit} failed at boot (see journalctl -u {AT_BOOT.unit})"
        )
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, _steps(facts, node, ports))
    owner = f"; {NVIDIAS_OWN} clears it at every boot" if _has_owner(facts) else ""
    reason = f"no redirection at {len(ports.on_paths)} ports on GPU paths{owner}"
    return Decision(NAME, Status.MET, reason, evidence, warnings)


def _steps(facts: NodeFacts, node: Node, ports: _Ports) -> tuple[Step, ...]:
    """Return the steps that clear all ports on the paths at every boot, then clear the redirecting ones now.

    With this order, a node on which a step fails still redirects and stays unmet. If NVIDIA's unit clears the
    ports at boot, they are only cleared now and no second unit is installed.
    """
    if facts.system.is_locked_down or _by_hand(facts):
        return ()
    found: list[Step] = []
    if facts.software.tool("setpci") is None:
        package = install(facts, node, "Install pciutils for setpci", "pciutils")
        found += (package,) if package is not None else ()
    if node.requirements.acs.persist and facts.system.systemd_running and not _has_owner(facts):
        capable = [port for port in ports.on_paths if _word(port) is not None]
        script = render(
            "apply", "acs-redirect-off.sh", ports=capable, register=REGISTER, redirects=f"{REDIRECTS:04x}"
        )
        found += AT_BOOT.steps(script, f" for {len(capable)} ports", start=AT_BOOT.has_failed(facts))
    for port in ports.redirecting:
        word = _word(port)
        assert word is not None
        found.append(
            SetRegister(f"Clear ACS redirection at {port.address}", port.address, REGISTER, "0000", word)
        )
    return tuple(found)


def matches(device: PciDevice, selector: str) -> bool:
    """Return whether a selector matches a device.

    Selectors have the forms ``class:0302``, ``10de:*``, ``8086:10d3``, ``0000:3b:00.0`` and ``3b:00.0``.
    """
    selector = selector.lower()
    if selector.startswith("class:"):
        return device.class_code.startswith(selector[len("class:") :])
    if "." in selector:
        address = selector if selector.count(":") == 2 else f"0000:{selector}"
        return device.address.lower() == address
    vendor, _, product = selector.partition(":")
    return device.vendor == vendor and product in ("*", device.device)


def select(devices: Iterable[PciDevice], selectors: Sequence[str]) -> tuple[PciDevice, ...]:
    """Return the devices that match at least one selector."""
    return tuple(device for device in devices if any(matches(device, s) for s in selectors))


def bridges_between(one: PciDevice, other: PciDevice) -> tuple[str, ...]:
    """Return the addresses of the ports that peer-to-peer traffic between two devices passes.

    Below a common switch these are only its downstream ports, not the upstream port or anything above it.
    Without a common ancestor the path includes both root ports.
    """
    above_one, above_other = one.path[:-1], other.path[:-1]
    common = 0
    for left, right in zip(above_one, above_other, strict=False):
        if left != right:
            break
        common += 1
    return (*above_one[common:], *above_other[common:])


def bridges_on_paths(gpus: Sequence[PciDevice], nics: Sequence[PciDevice]) -> tuple[str, ...]:
    """Return the ports on any path between two GPUs or a GPU and a NIC, in address order, each once."""
    pairs = [
        *combinations(gpus, 2),
        *((gpu, nic) for gpu in gpus for nic in nics if gpu.address != nic.address),
    ]
    return tuple(sorted({address for one, other in pairs for address in bridges_between(one, other)}))
