"""Parse the probe's answers about a node's links, and find the node with the slowest links, which limits all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clusterctl.foreign import decimal, whole
from clusterctl.trust.gpudirect import Evidence
from clusterctl.trust.links import NodeLinks, RdmaLink, nvlink, selects


def _numbers(text: str) -> list[float]:
    words = text.split()
    if not all(word.replace(".", "", 1).isdecimal() for word in words):
        return []
    return [decimal(word) for word in words]


def read(
    said: Mapping[str, Sequence[str]], gpus: int, selector: str | None
) -> tuple[NodeLinks | None, Evidence]:
    """Parse the probe's lines; links: None if the node did not report them (an older probe).

    ``selector`` is the inventory's NCCL_IB_HCA (``rdma_devices``): ports that it excludes are ignored. Rates: GB/s for
    NVLink, Gb/s for RDMA ports.
    """
    if said.get("links") != ["asked"]:
        return None, Evidence()
    ports = []
    for line in said.get("rdma_port", ()):
        device, number, *rate = line.split()
        rates = _numbers(" ".join(rate))
        if rates and number.isdecimal() and selects(selector, device, whole(number)):
            ports.append(RdmaLink(device, whole(number), rates[0]))
    rates = _numbers(" ".join(said.get("nvlinks", ())))
    pairs = [int(number) for number in _numbers(" ".join(said.get("nvlink_pairs", ())))]
    found, why = nvlink(rates, pairs, gpus)
    memlock = " ".join(said.get("memlock", ()))
    evidence = Evidence(
        rdma_ports=tuple(f"{port.device}:{port.port}" for port in ports),
        peer_memory=tuple(said.get("peer_memory", ())),
        memlock_kib=whole(memlock) if memlock.isdecimal() else None,
        gpu=next(iter(said.get("gpu_name", ())), None),
        ec2_machine=next(iter(said.get("ec2_machine", ())), None),
        # A selector that only excludes devices does not promise that the node has one.
        rdma_named=selector if selector and not selector.startswith("^") else None,
    )
    return NodeLinks(gpus, found, why, tuple(ports)), evidence


def selected(links: NodeLinks | None, selector: str | None) -> NodeLinks | None:
    """Return a node's links with only the RDMA ports that the launch's NCCL_IB_HCA selects."""
    if links is None:
        return None
    return replace(links, rdma=tuple(p for p in links.rdma if selects(selector, p.device, p.port)))


def weakest(links: Sequence[NodeLinks | None]) -> NodeLinks | None:
    """Return the links of the slowest node, by the sum of its NICs and then NVLink; None if any node's are unknown."""
    known = [entry for entry in links if entry is not None]
    if not known or len(known) < len(links):
        return None

    def rate(entry: NodeLinks) -> tuple[float, float]:
        return sum(port.rate_gbitps for port in entry.rdma), entry.nvlink.gbps if entry.nvlink else 0.0

    return min(known, key=rate)
