"""``peermem``: NICs can reach GPU memory through exactly one of DMA-BUF, nvidia-peermem and nv_peer_mem.

Order of preference and conditions: NVIDIA GPU Operator documentation and NCCL net_ib/gdr.cc. An explicit
choice in the inventory overrides the decision; a warning is given where the choice looks wrong.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterctl.facts.subjects.gpu_models import is_joined_to_its_cpu, why_no_gpudirect
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.gpus import own_gpus, why_none
from clusterctl.requirements.packages import by_hand
from clusterctl.requirements.rdma import data_direct, dma_buf, efa, nccl_settings, out_of_tree
from clusterctl.requirements.rdma import gids as rdma_gids
from clusterctl.requirements.rdma import ports as rdma_ports
from clusterctl.requirements.rdma.dma_buf import missing_conditions
from clusterctl.requirements.steps import Command, Step
from clusterctl.requirements.wording import ENROLL, because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet


NAME = "peermem"
TITLE = "GPUDirect RDMA: NICs reach GPU memory"
READS = frozenset(
    {
        "configuration",
        "gpu",
        "modules",
        "network",
        "pci",
        "rdma",
        "services",
        "software",
        "system",
        "versions",
    }
)
ABOUT = About(
    checks="one GPUDirect RDMA mechanism works: DMA-BUF, else nvidia-peermem, else nv_peer_mem",
    why=(
        "with GPUDirect RDMA a NIC reads and writes GPU memory directly; if one node lacks it, all nodes "
        "run at a fraction of their rate without an error"
    ),
    bootstrap="loads the module now and at boot; builds a module from `peermem.source` or `.git`, with DKMS if present",
    undo=(
        "restores which modules are loaded, and removes the modules, files and packages that bootstrap added"
    ),
    settings=("requirements.peermem",),
)

NVIDIA = "nvidia_peermem"
LEGACY = "nv_peer_mem"
OFED_HINT = (
    "install the NIC vendor's stack (DOCA-OFED for ConnectX), or use the open GPU kernel modules (DMA-BUF)"
)


def is_loaded(facts: NodeFacts, module: str) -> bool:
    """Return whether a peer-memory module (``NVIDIA`` or ``LEGACY``) is loaded, by its version file or its name."""
    if module == LEGACY and facts.gpudirect.nv_peer_mem_version.value is not None:
        return True
    if module == NVIDIA and facts.gpudirect.nvidia_peermem_version.value is not None:
        return True
    return facts.modules.is_loaded(module) is True


def _dma_buf(facts: NodeFacts, node: Node) -> Decision:
    missing = missing_conditions(facts, node)
    if missing:
        return Decision(NAME, Status.UNMET, f"DMA-BUF is not possible: {'; '.join(missing)}")
    has_verbs = ", ibv_reg_dmabuf_mr" if facts.gpudirect.verbs_dmabuf.value else ""
    reason = f"DMA-BUF: kernel {facts.system.kernel.value}, open GPU kernel modules{has_verbs}"
    return Decision(NAME, Status.MET, reason, warnings=dma_buf.warnings(facts, node))


def _at_boot(facts: NodeFacts, module: str) -> tuple[Step, ...]:
    return (*out_of_tree.load_after_ofed(facts, module), out_of_tree.load_at_boot(module))


def _nvidia_peermem(facts: NodeFacts) -> Decision:
    if is_loaded(facts, NVIDIA):
        if facts.modules.loads_at_boot(NVIDIA):
            return Decision(NAME, Status.MET, "nvidia_peermem is loaded now and at boot")
        reason = "nvidia_peermem is loaded, but not configured to load at boot"
        return Decision(NAME, Status.UNMET, reason, steps=_at_boot(facts, NVIDIA))
    if facts.gpudirect.peer_memory_api.value is False:
        reason = (
            "nvidia_peermem cannot be loaded: this kernel's RDMA stack lacks ib_register_peer_memory_client; "
            + OFED_HINT
        )
        return Decision(NAME, Status.UNMET, reason)
    if facts.modules.is_installed(NVIDIA) is False:
        return Decision(
            NAME,
            Status.UNMET,
            "the GPU driver does not include nvidia_peermem (older than R470, or built without it)",
        )
    reason = "nvidia_peermem is not loaded"
    if facts.modules.loads_at_boot(NVIDIA):
        reason += (
            ", although it is configured to load at boot (built for another kernel, or loaded before RDMA?)"
        )
    return Decision(NAME, Status.UNMET, reason, steps=(out_of_tree.load(NVIDIA), *_at_boot(facts, NVIDIA)))


def _by_efa(facts: NodeFacts, why: str) -> Decision:
    there = efa.is_there(facts)
    if there is None:
        return Decision(
            NAME, Status.UNKNOWN, f"{because('the list of kernel modules', facts.modules.installed)}. {why}"
        )
    if there:
        how = "is loaded" if facts.modules.is_loaded(efa.MODULE) else "is installed: the efa driver loads it"
        return Decision(NAME, Status.MET, f"{efa.MODULE} {how}. {why}")
    if not facts.gpu.open_kernel_module and efa.reaches_gpus_itself(facts):
        reason = (
            "whether Amazon's efa driver works with the proprietary GPU driver depends on the kernel: check the NCCL "
            f"log of a run. {why}"
        )
        return Decision(NAME, Status.UNKNOWN, reason)
    reason = f"{efa.MODULE} is not installed: the EFA installer provides it, for the open GPU kernel modules"
    return Decision(NAME, Status.UNMET, f"{reason}. {why}")


def _built(facts: NodeFacts, node: Node) -> Decision:
    settings = node.requirements.peermem
    module = settings.module
    if is_loaded(facts, module):
        if facts.modules.loads_at_boot(module):
            return Decision(NAME, Status.MET, f"{module} is loaded now and at boot")
        reason = f"{module} is loaded, but not configured to load at boot"
        return Decision(NAME, Status.UNMET, reason, steps=_at_boot(facts, module))
    if facts.in_container:
        return Decision(
            NAME, Status.UNMET, f"{module} is not loaded, and a container cannot load it: load it on the host"
        )
    load = (out_of_tree.load(module), *_at_boot(facts, module))
    if facts.modules.is_installed(module):
        return Decision(NAME, Status.UNMET, f"{module} is installed but not loaded", steps=load)
    if settings.source is None and settings.git is None:
        reason = (
            f"{module} is not installed, and the inventory does not name a source to build it from: "
            "set requirements.peermem.source or .git"
        )
        return Decision(NAME, Status.UNMET, reason)
    kernel = facts.system.kernel.value
    if kernel is None:
        return Decision(NAME, Status.UNKNOWN, because("the kernel version", facts.system.kernel))
    missing = out_of_tree.missing_tools(facts, settings)
    by_dkms = facts.software.tool("dkms") is not None or "dkms" in missing
    make = out_of_tree.build_by_dkms if by_dkms else out_of_tree.build_and_install
    build = make(module, settings, kernel)
    reason = f"{module} is not built for kernel {kernel}"
    if not missing:
        return Decision(NAME, Status.UNMET, reason, steps=(*build, *load))
    names = some(["the kernel's headers" if name == "headers" else name for name in missing])
    packages = out_of_tree.packages_for(facts, missing)
    if packages is None:
        hint = by_hand(facts, names) or f"; install {names} by hand"
        return Decision(NAME, Status.UNMET, f"{reason}, for which {names} are needed{hint}")
    return Decision(
        NAME,
        Status.UNMET,
        f"{reason}; {names} will be installed to build it",
        steps=(packages, *build, *load),
    )


def _automatic(facts: NodeFacts, node: Node) -> Decision:
    if facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    if not own_gpus(facts):
        return Decision(NAME, Status.NOT_APPLICABLE, why_none(facts))
    if facts.in_container:
        return Decision(
            NAME, Status.NOT_APPLICABLE, "this is a container: its kernel modules belong to the host"
        )
    found = facts.rdma.devices
    if found.is_unknown:
        return Decision(NAME, Status.UNKNOWN, because("the list of RDMA devices", found))
    cards = [device for device in rdma_ports.networking(found.or_else(())) if not device.is_virtual]
    if not cards:
        return Decision(NAME, Status.NOT_APPLICABLE, "the node has no RDMA NIC")
    if all(rdma_gids.speaks_iwarp(device) for device in cards):
        return Decision(
            NAME, Status.NOT_APPLICABLE, "all RDMA NICs of this node use iWARP, which NCCL does not support"
        )
    reasons = [why_no_gpudirect(gpu.name) for gpu in facts.gpu.devices.or_else(())]
    if reasons and all(reasons):
        return Decision(NAME, Status.NOT_APPLICABLE, str(reasons[0]))
    by_amazon = efa.why_no_gpudirect(facts, node)
    if by_amazon is not None:
        return Decision(NAME, Status.NOT_APPLICABLE, by_amazon)
    if facts.gpu.driver.value is None:
        reason = because("the NVIDIA driver", facts.gpu.driver)
        return Decision(NAME, Status.UNMET, reason, follows="gpu-driver")
    if is_loaded(facts, LEGACY) and is_loaded(facts, NVIDIA):
        unload = Command(f"Unload {LEGACY}", ("modprobe", "-r", LEGACY), ("modprobe", LEGACY))
        return Decision(
            NAME,
            Status.UNMET,
            f"{LEGACY} and {NVIDIA} are both loaded: only one may register with the RDMA stack",
            warnings=(
                f"make sure that {LEGACY} is not loaded again at boot: check its package and init script",
            ),
            steps=(unload,),
        )
    by_dma_buf = _dma_buf(facts, node)
    if by_dma_buf.status is Status.MET:
        warnings = (*by_dma_buf.warnings, *efa.dma_buf_warnings(facts, node))
        return replace(by_dma_buf, warnings=warnings)
    why = by_dma_buf.reason
    if efa.is_the_way(facts, node):
        return _by_efa(facts, why)
    if is_loaded(facts, LEGACY):
        reason = f"{LEGACY} is loaded (legacy: nvidia-peermem or DMA-BUF is preferred). {why}"
        return Decision(NAME, Status.MET, reason)
    by_nvidia = _nvidia_peermem(facts)
    if by_nvidia.status is Status.MET or by_nvidia.steps:
        return replace(by_nvidia, reason=f"{by_nvidia.reason}. {why}")
    named = node.requirements.peermem.source or node.requirements.peermem.git
    if named is not None and facts.gpudirect.peer_memory_api.value is not False:
        built = _built(facts, node)
        return replace(built, reason=f"{by_nvidia.reason}; {built.reason}. {why}")
    return Decision(NAME, Status.UNMET, f"{by_nvidia.reason}. {why}")


def _chosen_warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    settings = node.requirements.peermem
    warnings = []
    other = {"nvidia-peermem": LEGACY, "nv_peer_mem": NVIDIA}.get(settings.mechanism)
    if other is not None and is_loaded(facts, other):
        warnings.append(f"{other} is loaded as well: unload one of the two modules")
    if not own_gpus(facts):
        warnings.append(f"the inventory requires {settings.mechanism}, but {why_none(facts)}")
    elif settings.mechanism in ("nvidia-peermem", "nv_peer_mem") and not missing_conditions(facts, node):
        warnings.append("DMA-BUF is possible on this node and preferred")
    if settings.mechanism == "nv_peer_mem":
        if facts.gpudirect.peer_memory_api.value is False and settings.module == LEGACY:
            warnings.append(f"the RDMA stack lacks ib_register_peer_memory_client; {OFED_HINT}")
        if facts.system.rejects_unsigned_modules:
            warnings.append(f"Secure Boot is on, or the kernel is locked down: {ENROLL}")
    return tuple(warnings)


def _decided(facts: NodeFacts, node: Node) -> Decision:
    settings = node.requirements.peermem
    if settings.mechanism == "auto":
        return _automatic(facts, node)
    if settings.mechanism == "none":
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory turns GPUDirect RDMA off")
    if settings.mechanism == "dma-buf":
        decision = _dma_buf(facts, node)
    elif settings.mechanism == "nvidia-peermem":
        decision = _nvidia_peermem(facts)
    else:
        decision = _built(facts, node)
    return replace(decision, warnings=(*decision.warnings, *_chosen_warnings(facts, node)))


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when the mechanism, chosen by the inventory or by clusterctl, works and survives a reboot."""
    decision = _decided(facts, node)
    direct = facts.gpudirect
    evidence: dict[str, Json] = {
        "mechanism": node.requirements.peermem.mechanism,
        "nv_peer_mem": direct.nv_peer_mem_version.value,
        "nvidia_peermem": direct.nvidia_peermem_version.value,
        "peer_memory_api": direct.peer_memory_api.value,
        "ofed": direct.ofed_version.value,
        "dma_buf_missing": list(missing_conditions(facts, node)),
    }
    warnings = decision.warnings
    if decision.status in (Status.MET, Status.UNMET):
        warnings += distance(facts) + data_direct.warnings(facts)
        off = nccl_settings.turns_gpudirect_off(facts, node)
        warnings += (f"{off}: NCCL still copies through host memory; unset it",) if off else ()
        chosen = node.requirements.peermem.mechanism
        relies = chosen == "nvidia-peermem" or (chosen == "auto" and bool(missing_conditions(facts, node)))
        alone = is_loaded(facts, NVIDIA) and not is_loaded(facts, LEGACY)
        if relies and alone and not facts.in_container:
            warnings += relying_on_nvidia_peermem(facts)
    return replace(decision, evidence=evidence, warnings=warnings)


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
