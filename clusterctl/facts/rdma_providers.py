"""Whether libibverbs finds a node's RDMA devices, which needs the provider of each device's driver."""

from __future__ import annotations

from clusterctl.facts.model.fabric import RdmaDevice
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.vendors import tables


def is_listed(facts: NodeFacts, device: RdmaDevice) -> bool:
    """Return whether ibv_devices lists a device, which proves that its library and provider are installed."""
    return device.name in facts.rdma.listed.or_else(())


def missing_provider(facts: NodeFacts, device: RdmaDevice) -> str | None:
    """Return the name of the provider that libibverbs lacks for a device; None if it is there, or not known."""
    if is_listed(facts, device):
        return None
    pci = facts.pci.device(device.pci_address) if device.pci_address is not None else None
    known = None if pci is None else tables.nic_drivers().get(pci.driver or "")
    return known.provider if known is not None and known.provider not in facts.rdma.providers else None
