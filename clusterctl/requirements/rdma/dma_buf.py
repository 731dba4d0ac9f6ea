"""Check the conditions for GPUDirect RDMA with DMA-BUF on a node.

Sources: NCCL net_ib/gdr.cc and init.cc; NVIDIA GPU Operator documentation (GPUDirect RDMA).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.facts.vendors import tables
from clusterctl.requirements.rdma import gids as rdma_gids
from clusterctl.requirements.rdma import nccl_settings
from clusterctl.requirements.rdma import ports as rdma_ports
from clusterctl.text.foreign import is_whole, whole
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.fabric import RdmaDevice
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.facts.vendors.tables import NicDriver
    from clusterctl.inventory.model import Node

MIN_KERNEL = (5, 12)


def missing_conditions(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return a text for each unmet condition of DMA-BUF; empty if all hold."""
    missing = []
    kernel = facts.system.kernel_version
    if kernel is None:
        missing.append("the kernel version is unknown")
    elif kernel < MIN_KERNEL:
        missing.append(f"kernel {facts.system.kernel.value} is older than 5.12")
    flavour = facts.gpu.open_kernel_module
    if flavour is None:
        missing.append("it is unknown whether the GPU driver's kernel modules are the open ones")
    elif not flavour:
        missing.append("the GPU driver's kernel modules are the proprietary ones, not the open ones")
    driver = facts.gpu.driver.value
    first = tables.branch("first-with-open-modules")
    if driver is not None and _branch(driver.version) < first:
        missing.append(f"driver {driver.version} is older than {first}")
    verbs = facts.gpudirect.verbs_dmabuf
    if verbs.value is False:
        missing.append("libibverbs lacks ibv_reg_dmabuf_mr (rdma-core before 34)")
    elif verbs.value is None and verbs.status is not ReadStatus.ABSENT:
        missing.append("it is unknown whether libibverbs has ibv_reg_dmabuf_mr")
    hindered = _hindered(facts, node)
    if _hinder_all(facts, node, hindered):
        missing += dict.fromkeys(hindered.values())
    off = nccl_settings.turns_dma_buf_off(facts, node)
    return (*missing, off) if off else tuple(missing)


def warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return warnings for a node on which DMA-BUF is possible: about libibverbs and about single NICs."""
    return (*_library_warnings(facts), *_nic_warnings(facts, node))


def _library_warnings(facts: NodeFacts) -> tuple[str, ...]:
    """Return a warning if libibverbs is missing: not a failure, because containers bring their own library."""
    if facts.gpudirect.verbs_dmabuf.status is not ReadStatus.ABSENT:
        return ()
    said = "libibverbs was not found (rdma-userspace); DMA-BUF needs its function ibv_reg_dmabuf_mr (rdma-core 34)"
    return (said,)


def _nic_warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return a warning about NICs without DMA-BUF, such as onboard or storage ports, if other NICs support it."""
    hindered = _hindered(facts, node)
    if not hindered or _hinder_all(facts, node, hindered):
        return ()
    why = "; ".join(dict.fromkeys(hindered.values()))
    return (
        f"no GPUDirect with {some(list(hindered))} if NCCL uses it (set rdma_devices to choose NICs): {why}",
    )


def _hinder_all(facts: NodeFacts, node: Node, hindered: dict[str, str]) -> bool:
    """Whether the unsupported NICs block DMA-BUF: always if the inventory chose the NICs, otherwise only if all are."""
    return node.rdma_devices is not None or len(hindered) == len(_used(facts, node))


def _used(facts: NodeFacts, node: Node) -> tuple[RdmaDevice, ...]:
    """Return the NICs that the inventory selects; without a selection, those that NCCL can use.

    NCCL skips ports that are not active, such as the second port of an onboard card, and does not support iWARP.
    """
    found = tuple(device for device in rdma_ports.devices(facts, node) if not device.is_virtual)
    if node.rdma_devices is not None:
        return found
    fit = (d for d in found if not rdma_gids.speaks_iwarp(d) and any(p.state == "ACTIVE" for p in d.ports))
    return tuple(fit) or found


def _hindered(facts: NodeFacts, node: Node) -> dict[str, str]:
    """Return the NICs whose drivers do not register DMA-BUF memory, and why."""
    found = {}
    for device in _used(facts, node):
        pci = facts.pci.device(device.pci_address) if device.pci_address is not None else None
        if pci is None:
            continue
        known = tables.nic_drivers().get(pci.driver or "")
        if known is None or known.dma_buf_kernel is None:
            found[device.name] = (
                f"the NIC driver {pci.driver} of {device.name} is not known to support DMA-BUF memory registration"
            )
        elif _is_too_old(facts, known, known.dma_buf_kernel):
            module = known.rdma_module or known.driver
            kernel = facts.system.kernel.value
            found[device.name] = (
                f"{module} of kernel {kernel} cannot register DMA-BUF memory "
                f"(needs kernel {known.dma_buf_since} or newer)"
            )
    return found


def _is_too_old(facts: NodeFacts, driver: NicDriver, since: tuple[int, int]) -> bool:
    """Whether the kernel's own RDMA driver is older than its DMA-BUF support.

    False for a vendor's build, which may support it on any kernel, and for Red Hat and SUSE, which backport drivers.
    """
    kernel, system, loaded = facts.system.kernel_version, facts.system.os.value, facts.modules.loaded.value
    if kernel is None or system is None or system.family != "debian" or loaded is None:
        return False
    names = {driver.driver, driver.rdma_module}
    of_the_kernel = not any(module.name in names and "O" in module.taints for module in loaded)
    return of_the_kernel and MIN_KERNEL <= kernel < since


def _branch(version: str) -> int:
    head = version.partition(".")[0]
    return whole(head) if is_whole(head) else 0
