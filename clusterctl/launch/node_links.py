"""Derive a node's links from its facts, and find the node with the slowest links, which limits all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from clusterctl.facts.model.devices import GpuFacts
from clusterctl.facts.model.host import UNLIMITED
from clusterctl.facts.model.node import NodeFacts
from clusterctl.requirements.rdma import peermem
from clusterctl.requirements.rdma.ports import chosen, networking
from clusterctl.trust.gpudirect import Evidence
from clusterctl.trust.links import NodeLinks, RdmaLink, nvlink

_AMAZON = "Amazon EC2"


def of_facts(facts: NodeFacts, selector: str | None) -> tuple[NodeLinks, Evidence]:
    """Return a node's links, and its evidence for GPUDirect RDMA.

    ``selector`` is the inventory's NCCL_IB_HCA (``rdma_devices``): ports that it excludes are ignored.
    """
    gpus = facts.gpu.devices.or_else(())
    ports = tuple(
        RdmaLink(device.name, port.number, port.rate_gbps)
        for device in networking(facts.rdma.devices.or_else(()))
        for port in device.ports
        if port.state == "ACTIVE"
        and port.rate_gbps is not None
        and chosen(device.name, port.number, selector)
    )
    found, why = nvlink(_rates(facts.gpu), _pairs(facts.gpu), len(gpus))
    memlock = facts.limits.memlock.value
    evidence = Evidence(
        rdma_ports=tuple(f"{port.device}:{port.port}" for port in ports),
        peer_memory=tuple(
            module for module in (peermem.NVIDIA, peermem.LEGACY) if peermem.is_loaded(facts, module)
        ),
        memlock_kib=None if memlock is None or memlock.soft == UNLIMITED else memlock.soft // 1024,
        gpu=gpus[0].name if gpus else None,
        ec2_machine=facts.versions.firmware_word("product_name")
        if facts.versions.firmware_word("sys_vendor") == _AMAZON
        else None,
        # A selector that only excludes devices does not promise that the node has one.
        rdma_named=selector if selector and not selector.startswith("^") else None,
    )
    return NodeLinks(len(gpus), found, why, ports), evidence


def _rates(gpu: GpuFacts) -> list[float]:
    """Return the rates of the first GPU's active NVLinks (GB/s)."""
    links = next(iter(gpu.nvlinks.or_else(())), None)
    return [] if links is None else [rate for rate in links.link_gbps if rate is not None]


def _pairs(gpu: GpuFacts) -> list[int]:
    """Return the number of NVLinks of each pair of GPUs, in both directions."""
    rows = gpu.topology.value.rows if gpu.topology.value is not None else ()
    cells = (cell for name, row in rows if name.startswith("GPU") for cell in row)
    return [int(match[1]) for cell in cells if (match := re.fullmatch(r"NV(\d{1,4})", cell))]


def selected(links: NodeLinks | None, selector: str | None) -> NodeLinks | None:
    """Return a node's links with only the RDMA ports that the launch's NCCL_IB_HCA selects."""
    if links is None:
        return None
    return replace(links, rdma=tuple(p for p in links.rdma if chosen(p.device, p.port, selector)))


def weakest(links: Sequence[NodeLinks | None]) -> NodeLinks | None:
    """Return the links of the slowest node, by the sum of its NICs and then NVLink; None if any node's are unknown."""
    known = [entry for entry in links if entry is not None]
    if not known or len(known) < len(links):
        return None

    def rate(entry: NodeLinks) -> tuple[float, float]:
        return sum(port.rate_gbitps for port in entry.rdma), entry.nvlink.gbps if entry.nvlink else 0.0

    return min(known, key=rate)
