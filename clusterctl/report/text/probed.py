"""What a probe found on nodes, for the comments of an inventory: a line per kind of node, and settings to consider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from clusterctl.inventory import nodeset
from clusterctl.text.grouping import grouped
from clusterctl.text.visible import visible
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.transport.base import Failure

_NVIDIA = "10de"
_DISPLAY_CLASS = "03"


def remarks(facts: Mapping[str, NodeFacts], failures: Mapping[str, Failure]) -> list[str]:
    """Return a line for each set of nodes that are alike, and for those that did not answer."""
    alike = grouped((_described(found), name) for name, found in facts.items())
    for name, failure in failures.items():
        alike.setdefault(f"did not answer ({failure.kind.value})", []).append(name)
    return [visible(f"{nodeset.fold(names)}: {text}") for text, names in alike.items()]


def suggestions(facts: Iterable[NodeFacts]) -> list[tuple[str, str | int, str]]:
    """Return key, value and meaning of settings that a person may want to set, with the values of the nodes."""
    found = list(facts)
    routes = {one.network.default_route.value for one in found}
    route = routes.pop() if len(routes) == 1 else None
    counts = {len(one.gpu.devices.or_else(())) for one in found} - {0}
    devices = {_rdma_names(one) for one in found}
    names = devices.pop() if len(devices) == 1 else ()
    return [
        ("user", "ubuntu", "login user; unset: as ssh_config sets it"),
        ("identity_file", "~/.ssh/id_ed25519", "private key on this machine; unset: as ssh does"),
        ("gpus", counts.pop() if len(counts) == 1 else 8, "GPUs per node; unset: as detected"),
        ("socket_ifname", visible(route or "bond0"), "network interface for TCP; unset: as detected"),
        (
            "rdma_devices",
            visible(f"={','.join(names)}" if names else "=mlx5_0,mlx5_1"),
            "RDMA devices of NCCL; unset: all",
        ),
        ("python", "/opt/venv/bin/python", "the Python that has torch; unset: python3"),
    ]


def _described(facts: NodeFacts) -> str:
    system = facts.system.os.value
    parts = [system.pretty_name if system is not None else "unknown system", _gpus(facts)]
    rdma = _rdma_names(facts)
    if rdma:
        parts.append(f"{counted(len(rdma), 'RDMA device')}")
    parts.append({"root": "login as root", "sudo": "root through sudo"}.get(facts.root.way, "no root"))
    return ", ".join(parts)


def _gpus(facts: NodeFacts) -> str:
    devices = facts.gpu.devices.or_else(())
    if devices:
        kinds = Counter(device.name for device in devices)
        names = " and ".join(f"{count} x {name}" for name, count in kinds.items())
        return f"{names} (driver {devices[0].driver_version})"
    slots = [
        device
        for device in facts.pci.devices.or_else(())
        if device.vendor == _NVIDIA and device.class_code.startswith(_DISPLAY_CLASS)
    ]
    return f"{len(slots)} NVIDIA GPUs without a working driver" if slots else "no NVIDIA GPU"


def _rdma_names(facts: NodeFacts) -> tuple[str, ...]:
    return tuple(one.name for one in facts.rdma.devices.or_else(()) if not one.manages_nvlink)
