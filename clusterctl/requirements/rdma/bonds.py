"""Judge the bonds that RDMA ports are part of: mode, members, their speeds, and how traffic is spread over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.rdma import ports as rdma_ports
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.fabric import Bond
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.requirements.rdma.ports import Port

_SPREADING = ("802.3ad", "balance-xor")
"""The modes in which mlx5 spreads RDMA over both ports (Linux, mlx5 core/lag: NETDEV_LAG_TX_TYPE_HASH)."""
_BACKUP = "active-backup"
_BY_CARD = ("layer2", "layer2+3", "encap2+3", "vlan+srcmac")
"""Hash policies that see one flow between two nodes (Linux, Documentation/networking/bonding.rst)."""


def below(facts: NodeFacts, ports: tuple[Port, ...]) -> tuple[Bond, ...]:
    """Return the bonds that contain network interfaces of the devices of these ports."""
    names = {name for device, _ in ports for name in rdma_ports.netdevs(facts, device)}
    return tuple(bond for bond in facts.network.bonds if bond.name in names)


def text(facts: NodeFacts, bond: Bond) -> str:
    """Return a bond in one line: mode, hash policy, and the speed of each member."""
    members = ", ".join(f"{name} {_speed(facts, name)}" for name in bond.members)
    return f"{bond.mode}, {bond.hash_policy or 'no hash policy'}: {members or 'no members'}"


def _speed(facts: NodeFacts, name: str) -> str:
    found = facts.network.interface(name)
    speed = None if found is None else found.speed_mbps
    return "of unknown speed" if speed is None else f"{speed / 1000:g} Gb/s"


def faults(facts: NodeFacts, ports: tuple[Port, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what takes rate from the bonds of these ports, and what may."""
    wrong: list[str] = []
    odd: list[str] = []
    for bond in below(facts, ports):
        if bond.down:
            wrong.append(f"{bond.name} runs without {some(bond.down)}, whose link is down")
        if bond.outside:
            wrong.append(
                f"{bond.name} does not use {some(bond.outside)}, which LACP put into another aggregator: "
                "put all of their switch ports into one channel"
            )
        speeds = {name: _speed(facts, name) for name in bond.members if name not in bond.down}
        if len(set(speeds.values())) > 1:
            listed = some([f"{name} {speed}" for name, speed in speeds.items()])
            wrong.append(f"the members of {bond.name} have different speeds: {listed}")
        if bond.mode == _BACKUP and len(bond.members) > 1:
            odd.append(
                f"{bond.name} uses {_BACKUP}, so that one of its {len(bond.members)} ports carries traffic"
            )
        elif bond.mode not in (*_SPREADING, _BACKUP):
            odd.append(f"{bond.name} uses {bond.mode}, for which mlx5 does not bond RDMA ports: use 802.3ad")
        elif bond.hash_policy in _BY_CARD:
            odd.append(
                f"{bond.name} spreads by {bond.hash_policy}, so that all TCP between two nodes takes one port: "
                "set xmit_hash_policy to layer3+4"
            )
    return tuple(wrong), tuple(odd)
