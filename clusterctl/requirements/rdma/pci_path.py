"""Select PCI devices, and find the bridges between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from clusterctl.facts.model.devices import PciDevice


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
