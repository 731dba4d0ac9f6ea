"""``rdma-link``: the RDMA ports in use are up, at their rate, and consistent with other nodes. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.inventory.field_types import too_many_hcas
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.rdma import bonds as rdma_bonds
from clusterctl.requirements.rdma import counters as rdma_counters
from clusterctl.requirements.rdma import efa
from clusterctl.requirements.rdma import gids as rdma_gids
from clusterctl.requirements.rdma import majority as rdma_fleet
from clusterctl.requirements.rdma import ports as rdma_ports
from clusterctl.requirements.rdma.nccl_settings import given, topology_warnings, turns_rdma_off
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.fabric import RdmaDevice, RdmaPort
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet
    from clusterctl.requirements.rdma.ports import Port

NAME = "rdma-link"
TITLE = "RDMA ports are active, at their rate, and consistent"
READS = frozenset({"configuration", "network", "pci", "rdma", "system"})
ABOUT = About(
    checks=(
        "ports are up, at their rate and width, with the fleet's firmware and MTU, a RoCE v2 GID, and no "
        "new errors"
    ),
    why=(
        "a port that is down, slow, without an address or configured differently is the usual cause of a "
        "collective that works but is slow"
    ),
    bootstrap="nothing: clusterctl does not change cables or switches",
    undo="nothing, because bootstrap changes nothing",
    settings=("requirements.rdma_link", "rdma_devices"),
)


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


def _ibstat(device: RdmaDevice, port: RdmaPort) -> dict[str, Json]:
    """Return the fields of ibstat, under its names, that ``ports`` does not show."""
    mask = port.capability_mask
    return {
        "CA type": device.hca_type,
        "Firmware version": device.fw_ver,
        "Hardware version": device.hw_rev,
        "Node GUID": device.node_guid,
        "System image GUID": device.system_image_guid,
        "Base lid": port.lid,
        "LMC": port.lmc,
        "SM lid": port.sm_lid,
        "Capability mask": None if mask is None else f"0x{mask:08x}",
        "Port GUID": port.guid,
    }


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when each chosen port is ACTIVE, LinkUp, has an address, and is not worse than most of its kind.

    Without a selector one active port per card is enough, because second ports are often not cabled. There are no
    steps: a link is fixed at the cable, the switch or the subnet manager.
    """
    settings = node.requirements.rdma_link
    if settings.require is False:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory turns the check of RDMA links off")
    reading = facts.rdma.devices
    if reading.is_unknown:
        return Decision(NAME, Status.UNKNOWN, because("the list of RDMA devices", reading))
    silent, odd_ones = rdma_ports.without_device(facts)
    if not reading.value or (node.rdma_devices is None and not rdma_ports.networking(reading.value)):
        none = "the node has no RDMA device"
        none += " except those that manage the NVLink switches" if reading.value else ""
        return _without_devices(none, silent, is_required=settings.require is True)
    ports = rdma_ports.ports(facts, node)
    used = {device.name for device, _ in ports}
    evidence: dict[str, Json] = {
        "selector": node.rdma_devices,
        "ports": {
            f"{d.name}:{p.number}": f"{p.state} {p.phys_state} {p.rate} {p.link_layer}" for d, p in ports
        },
        "ibstat": {f"{d.name}:{p.number}": _ibstat(d, p) for d, p in ports},
        "left_out": [device.name for device in reading.value if device.name not in used],
    }
    if not ports:
        names = some([device.name for device in reading.value])
        reason = f"rdma_devices {node.rdma_devices!r} does not match any of this node's devices: {names}"
        return Decision(NAME, Status.UNMET, reason, evidence)
    faults, warnings = _state_faults(facts, ports, node, fleet)
    missing = rdma_ports.named_but_missing(node.rdma_devices, reading.value)
    if missing:
        faults.append(f"rdma_devices names {some(missing)}, which this node does not have")
    if silent and node.rdma_devices is None:
        faults.append(_no_device(silent))
    if odd_ones and node.rdma_devices is None:
        warnings.append(
            f"cards of the same model as the RDMA devices, but without one: {some([d.address for d in odd_ones])}"
        )
    active = sum(port.state == "ACTIVE" for _, port in ports)
    for device, port in ports:
        wrong, odd = rdma_gids.faults(facts, device, port)
        faults += wrong
        warnings += odd
    off = turns_rdma_off(facts, node)
    if not all(rdma_gids.speaks_iwarp(device) for device, _ in ports):
        warnings += [f"{off}: NCCL uses sockets instead of these ports; unset it"] if off else []
    elif off is None:
        faults.append(
            "all RDMA devices use iWARP, but NCCL supports only InfiniBand and RoCE: set NCCL_IB_DISABLE=1"
        )
    indices = frozenset(rdma_fleet.usual(fleet).gid_indices)
    for wrong, odd in (
        rdma_gids.index_faults(facts, node, ports, indices),
        rdma_fleet.unlike(facts, ports, fleet),
        rdma_bonds.faults(facts, ports),
    ):
        faults += wrong
        warnings += odd
    place, selector = next(given(facts, node, "NCCL_IB_HCA"), ("", None))
    if node.rdma_devices:
        place, selector = "the inventory", node.rdma_devices
    too_many = too_many_hcas(selector or "")
    if too_many is not None:
        warnings.append(f"NCCL_IB_HCA of {place} {too_many}")
    warnings += topology_warnings(facts, node) + rdma_gids.family_warnings(facts, node, ports)
    warnings += (
        *rdma_ports.means_more(selector, reading.value),
        *rdma_ports.bridge_warnings(facts, selector, has_plugin=efa.is_the_way(facts, node)),
    )
    earlier = fleet.earlier.get(node.name)
    added, was_reset = rdma_counters.growth(facts, earlier, ports)
    warnings += rdma_counters.warnings(facts, earlier, added)
    evidence |= {
        "gid_index": {f"{d.name}:{p.number}": rdma_gids.index_of(facts, d, p) for d, p in ports},
        "bonds": {bond.name: rdma_bonds.text(facts, bond) for bond in rdma_bonds.below(facts, ports)},
        "errors_since": dict(added),
        "counters_were_reset": was_reset,
    }
    if faults:
        hint = "" if node.rdma_devices else "; use rdma_devices to exclude ports that are not for training"
        return Decision(NAME, Status.UNMET, some(faults) + hint, evidence, tuple(warnings))
    reason = f"{active} port{'s are' if active > 1 else ' is'} active"
    return Decision(NAME, Status.MET, reason, evidence, tuple(warnings))


def _without_devices(none: str, silent: tuple[PciDevice, ...], *, is_required: bool) -> Decision:
    if silent:
        return Decision(NAME, Status.UNMET, _no_device(silent))
    if is_required:
        return Decision(NAME, Status.UNMET, f"{none}, and the inventory requires one")
    return Decision(NAME, Status.NOT_APPLICABLE, none)


def _no_device(cards: tuple[PciDevice, ...]) -> str:
    named = some([f"{card.address} ({card.driver or 'no driver'})" for card in cards])
    hint = "check that mlx5_ib is installed (on Ubuntu in linux-modules-extra), and look for errors in dmesg"
    return f"InfiniBand cards on PCI have no RDMA device, so NCCL does not see them: {named}; {hint}"


def _state_faults(
    facts: NodeFacts, ports: tuple[Port, ...], node: Node, fleet: Fleet
) -> tuple[list[str], list[str]]:
    """Return faults for ports that are down or too slow, and warnings for ports that are probably not cabled."""
    faults: list[str] = []
    spare: list[str] = []
    # A card whose management port is up is in use too, although that port itself is not judged.
    up = {
        rdma_ports.card(device)
        for device in facts.rdma.devices.or_else(())
        for port in device.ports
        if _fault(device, port, None) is None
    }
    for device, port in ports:
        fault = _fault(device, port, node.requirements.rdma_link.min_rate_gbps)
        if fault is None:
            continue
        maybe_spare = node.rdma_devices is None and port.state != "ACTIVE"
        if maybe_spare and rdma_ports.card(device) in up and not rdma_fleet.up_elsewhere(fleet, device, port):
            spare.append(fault)
        else:
            faults.append(fault)
    return faults, spare
