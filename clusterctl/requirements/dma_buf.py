"""Whether GPUDirect RDMA by DMA-BUF is possible on a node, condition by condition.

Sources: NCCL net_ib/gdr.cc and init.cc; NVIDIA GPU Operator documentation (GPUDirect RDMA).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.model import ReadStatus
from clusterctl.foreign import is_whole, whole
from clusterctl.requirements import nccl_settings, rdma_gids, rdma_ports
from clusterctl.requirements.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, RdmaDevice
    from clusterctl.inventory.model import Node

MIN_KERNEL = (5, 12)
MIN_DRIVER = 515
"""The first driver branch with open kernel modules (CUDA 11.7)."""
NIC_DRIVERS = {
    "mlx5_core": MIN_KERNEL,
    "efa": (5, 16),
    "ice": (6, 3),
    "irdma": (6, 3),
    "bnxt_en": (6, 6),
    "ionic": (6, 18),
}
"""Drivers of NICs, and the first Linux whose own RDMA driver for them registers DMA-BUF memory (Linux commits
66f4817b5712 of EFA, d2225b838cca of irdma, 0a30e59f22b2 of bnxt_re)."""
_RDMA_SIDE = {"ice": "irdma", "bnxt_en": "bnxt_re"}
"""Modules that bring a NIC driver's RDMA devices, where it is not the driver itself."""


def missing_conditions(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return what stands in the way of DMA-BUF, in words; empty when all conditions hold."""
    missing = []
    kernel = facts.system.kernel_version
    if kernel is None:
        missing.append("the kernel's version is not known")
    elif kernel < MIN_KERNEL:
        missing.append(f"kernel {facts.system.kernel.value} is older than 5.12")
    flavour = facts.gpu.open_kernel_module
    if flavour is None:
        missing.append("whether the GPU driver's kernel modules are the open ones is not known")
    elif not flavour:
        missing.append("the GPU driver's kernel modules are the proprietary ones, not the open ones")
    driver = facts.gpu.driver.value
    if driver is not None and _branch(driver.version) < MIN_DRIVER:
        missing.append(f"driver {driver.version} is older than {MIN_DRIVER}")
    verbs = facts.gpudirect.verbs_dmabuf
    if verbs.value is False:
        missing.append("libibverbs lacks ibv_reg_dmabuf_mr (rdma-core before 34)")
    elif verbs.value is None and verbs.status is not ReadStatus.ABSENT:
        missing.append("whether libibverbs has ibv_reg_dmabuf_mr is not known")
    hindered = _hindered(facts, node)
    if _hinder_all(facts, node, hindered):
        missing += dict.fromkeys(hindered.values())
    off = nccl_settings.turns_dma_buf_off(facts, node)
    return (*missing, off) if off else tuple(missing)


def warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return what to know where DMA-BUF is possible: of the library that programs bring along, and of single NICs."""
    return (*_library_warnings(facts), *_nic_warnings(facts, node))


def _library_warnings(facts: NodeFacts) -> tuple[str, ...]:
    """Say that there is no libibverbs: kernel and drivers decide, and containers bring their own library."""
    if facts.gpudirect.verbs_dmabuf.status is not ReadStatus.ABSENT:
        return ()
    said = "there is no libibverbs where it usually is (rdma-userspace): it needs ibv_reg_dmabuf_mr (rdma-core 34)"
    return (said,)


def _nic_warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Name the NICs that do not register DMA-BUF memory where others do: a board's own port, or one for storage."""
    hindered = _hindered(facts, node)
    if not hindered or _hinder_all(facts, node, hindered):
        return ()
    why = "; ".join(dict.fromkeys(hindered.values()))
    return (
        f"no GPUDirect by {some(list(hindered))}, should NCCL use it (rdma_devices says what is used): {why}",
    )


def _hinder_all(facts: NodeFacts, node: Node, hindered: dict[str, str]) -> bool:
    """Whether those are the NICs: without a word of the inventory some that others go by are no hindrance."""
    return node.rdma_devices is not None or len(hindered) == len(_used(facts, node))


def _used(facts: NodeFacts, node: Node) -> tuple[RdmaDevice, ...]:
    """Return the NICs that the node is to use; of those that nobody named, the ones that NCCL can.

    NCCL skips ports that are not active, like the second one of a board's own card, and speaks no iWARP.
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
        if pci.driver not in NIC_DRIVERS:
            found[device.name] = (
                f"the NIC driver {pci.driver} of {device.name} is not known to register DMA-BUF memory"
            )
        elif _is_too_old(facts, pci.driver):
            first = ".".join(map(str, NIC_DRIVERS[pci.driver]))
            module = _RDMA_SIDE.get(pci.driver, pci.driver)
            kernel = facts.system.kernel.value
            found[device.name] = (
                f"{module} of kernel {kernel} does not register DMA-BUF memory (from {first} on)"
            )
    return found


def _is_too_old(facts: NodeFacts, driver: str) -> bool:
    """Whether the kernel's own RDMA driver is from before DMA-BUF.

    A vendor's build may know it on any kernel, and Red Hat and SUSE take newer drivers into older kernels.
    """
    kernel, system, loaded = facts.system.kernel_version, facts.system.os.value, facts.modules.loaded.value
    if kernel is None or system is None or system.family != "debian" or loaded is None:
        return False
    names = {driver, _RDMA_SIDE.get(driver, driver)}
    of_the_kernel = not any(module.name in names and "O" in module.taints for module in loaded)
    return of_the_kernel and MIN_KERNEL <= kernel < NIC_DRIVERS[driver]


def _branch(version: str) -> int:
    head = version.partition(".")[0]
    return whole(head) if is_whole(head) else 0
