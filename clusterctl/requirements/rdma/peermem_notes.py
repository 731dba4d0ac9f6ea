"""Warnings beside the verdict of ``peermem``: NCCL versions, the future of nvidia_peermem, distance of NICs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterctl.facts.subjects.gpu_models import is_joined_to_its_cpu

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts

LAST_NCCL_WITHOUT_NVIDIA_PEERMEM = (2, 22, 3)
FIRST_CUDA_13_DRIVER = (580,)
FIRST_NCCL_THROUGH_THE_CPU = (2, 27)
"""The first NCCL version in which NCCL_NET_GDR_C2C is 1 by default (NCCL user guide)."""


def relying_on_nvidia_peermem(facts: NodeFacts) -> tuple[str, ...]:
    """Return warnings for a node that relies on nvidia_peermem: too old an NCCL, or a driver that deprecates it."""
    warnings = []
    nccl = _nccl(facts)
    if nccl is not None and () < _numbers(nccl) <= LAST_NCCL_WITHOUT_NVIDIA_PEERMEM:
        warnings.append(
            f"NCCL {nccl.partition('-')[0]} does not look for nvidia_peermem, and sends without GPUDirect "
            "(nccl #1676): use a version newer than 2.22.3"
        )
    driver = facts.gpu.driver.value
    if driver is not None and _numbers(driver.version) >= FIRST_CUDA_13_DRIVER:
        warnings.append("CUDA 13 deprecates the interface that nvidia_peermem uses: prefer DMA-BUF")
    return tuple(warnings)


def distance(facts: NodeFacts) -> tuple[str, ...]:
    """Warn when NCCL turns GPUDirect RDMA off because no NIC is within a PCIe switch (NCCL_NET_GDR_LEVEL)."""
    matrix = facts.gpu.topology.value
    if matrix is None:
        return ()
    found = {
        connection
        for row, _ in matrix.rows
        for column in matrix.columns
        if row.startswith("GPU") and not column.startswith("GPU")
        if (connection := matrix.connection(row, column)) is not None
    }
    if not found or not found <= {"PHB", "NODE", "SYS"}:
        return ()
    if any(is_joined_to_its_cpu(gpu.name) for gpu in facts.gpu.devices.or_else(())):
        return _through_the_cpu(facts)
    note = (
        f"the path between each NIC and GPU is {'/'.join(sorted(found))}: NCCL turns GPUDirect off at that distance "
        "(NCCL_NET_GDR_LEVEL is PXB by default); this is usual in virtual machines"
    )
    return (note,)


def _through_the_cpu(facts: NodeFacts) -> tuple[str, ...]:
    """Warn of an NCCL that cannot use GPUDirect through the CPU of joined GPUs, whose NICs are all at SYS."""
    nccl = _nccl(facts)
    if nccl is None or not () < _numbers(nccl) < FIRST_NCCL_THROUGH_THE_CPU:
        return ()
    note = (
        f"NCCL {nccl.partition('-')[0]} sends without GPUDirect from GPUs that are joined to their CPU: use 2.27 or "
        "newer, or set NCCL_NET_GDR_C2C=1 (from 2.26 on)"
    )
    return (note,)


def _nccl(facts: NodeFacts) -> str | None:
    return facts.software.package("libnccl2") or facts.software.package("libnccl")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``2.21.5-1+cuda12.4`` is (2, 21, 5)."""
    found = re.match(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
