"""``rdma-link``: the RDMA ports to be used are up, at the rate asked for. It only judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.base import Json, Status, Step, Verdict
from clusterctl.requirements.wording import because, some

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, RdmaDevice, RdmaPort
    from clusterctl.inventory.model import Node

NAME = "rdma-link"
TITLE = "RDMA ports are active at their rate"


def chosen(device: str, port: int, selector: str | None) -> bool:
    """Whether NCCL_IB_HCA's syntax means a port: ``mlx5``, ``=mlx5_0:1``, ``^mlx5_2``, ``^=mlx5_2``."""
    if not selector:
        return True
    exclude = selector.startswith("^")
    rest = selector[1:] if exclude else selector
    exact = rest.startswith("=")
    rest = rest[1:] if exact else rest
    found = False
    for item in filter(None, (part.strip() for part in rest.split(","))):
        name, _, wanted_port = item.partition(":")
        same = device == name if exact else device.startswith(name)
        found = found or (same and (not wanted_port or wanted_port == str(port)))
    return found != exclude


def _fault(device: RdmaDevice, port: RdmaPort, min_rate_gbps: float | None) -> str | None:
    name = f"{device.name} port {port.number}"
    if port.state != "ACTIVE":
        why = ""
        if port.state == "INIT" and port.link_layer == "InfiniBand":
            why = " (no subnet manager has configured it)"
        return f"{name} is {port.state}, {port.phys_state}{why}"
    if port.phys_state != "LinkUp":
        return f"{name} is {port.phys_state}, not LinkUp"
    if min_rate_gbps is not None and (port.rate_gbps or 0.0) < min_rate_gbps:
        return f"{name} runs at {port.rate or 'an unknown rate'}, below {min_rate_gbps:g} Gb/s"
    return None


def judge(facts: NodeFacts, node: Node) -> Verdict:
    """Met when every chosen port is ACTIVE and LinkUp.

    Without a selector one active port is enough for a device: second ports are often not cabled.
    """
    settings = node.requirements.rdma_link
    if settings.require is False:
        return Verdict(NAME, Status.NOT_APPLICABLE, "the inventory says that RDMA links are not judged")
    reading = facts.rdma.devices
    if reading.value is None and reading.status.value not in ("absent", "empty"):
        return Verdict(NAME, Status.UNKNOWN, because("the list of RDMA devices", reading))
    if not reading.value:
        if settings.require:
            return Verdict(NAME, Status.UNMET, "there is no RDMA device, and the inventory requires one")
        return Verdict(NAME, Status.NOT_APPLICABLE, "there is no RDMA device")
    ports = [(d, p) for d in reading.value for p in d.ports if chosen(d.name, p.number, node.rdma_devices)]
    evidence: dict[str, Json] = {
        "selector": node.rdma_devices,
        "ports": {
            f"{d.name}:{p.number}": f"{p.state} {p.phys_state} {p.rate} {p.link_layer}" for d, p in ports
        },
    }
    if not ports:
        names = some([device.name for device in reading.value])
        reason = f"rdma_devices {node.rdma_devices!r} means none of the devices there are: {names}"
        return Verdict(NAME, Status.UNMET, reason, evidence)
    faults: list[str] = []
    spare: list[str] = []
    up = {device.name for device, port in ports if _fault(device, port, None) is None}
    for device, port in ports:
        fault = _fault(device, port, settings.min_rate_gbps)
        if fault is None:
            continue
        if node.rdma_devices is None and device.name in up and port.state != "ACTIVE":
            spare.append(fault)
        else:
            faults.append(fault)
    if faults:
        hint = "" if node.rdma_devices else "; ports that are not for training are left out by rdma_devices"
        return Verdict(NAME, Status.UNMET, some(faults) + hint, evidence)
    active = len(ports) - len(spare)
    reason = f"{active} port{'s are' if active > 1 else ' is'} active"
    return Verdict(NAME, Status.MET, reason, evidence, tuple(spare))


def steps(facts: NodeFacts, node: Node) -> tuple[Step, ...]:
    """Return nothing: what is wrong with a link is mended at the cable, the switch or the subnet manager."""
    del facts, node
    return ()
