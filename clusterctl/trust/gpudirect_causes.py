"""Find the likely cause why NCCL did not use GPUDirect RDMA, or RDMA at all, from its log and the node's state."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterctl.facts.subjects.gpu_models import why_no_efa_gpudirect, why_no_gpudirect
from clusterctl.text.typed_inventory import filled
from clusterctl.trust.links import is_efa
from clusterctl.trust.nccl_log_model import ProcessLog

# src/graph/topo.h (before 2.22 src/include/graph.h): the numbers changed when paths over C2C were added.
_PATHS_OLD = ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")
_PATHS_NEW = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")
_FAR = ("P2C", "PHB", "SYS")
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
# The first versions for which the numbers and modules below are verified.
_NEW_PATHS = (2, 27, 0)
_OLD_PATHS_UNTIL = (2, 25, 99)
_SEES_NVIDIA_PEERMEM = (2, 23, 0)
_REGISTRATION = re.compile(r"ibv_reg_\w{1,64} failed with error Cannot allocate memory")
_SMALL_MEMLOCK_KIB = 1 << 20
_USERSPACE_HINT = (
    "install libibverbs and its providers (rdma-core) where ranks run; containers: --device /dev/infiniband"
)
_EFA_HINT = (
    "install it with the EFA installer and add its directory to LD_LIBRARY_PATH of the ranks; for containers add "
    "--device /dev/infiniband; lines with NET/OFI in a rank's log show its messages"
)
_MEMLOCK_HINT = "run clusterctl bootstrap INVENTORY --only memlock; for containers use --ulimit memlock=-1"

Cause = tuple[str, str | None]


def version(processes: Sequence[ProcessLog]) -> tuple[int, int, int] | None:
    """Return the NCCL version that all processes share; None without one, or if they differ."""
    found = {match for process in processes for text in process.versions if (match := _VERSION.match(text))}
    numbers = {(int(match[1]), int(match[2]), int(match[3])) for match in found}
    return numbers.pop() if len(numbers) == 1 else None


def path_name(number: int, nccl: tuple[int, int, int] | None) -> str | None:
    """Return the name of a path type's number in one NCCL version; None if the mapping is not verified."""
    if nccl is None or _OLD_PATHS_UNTIL < nccl < _NEW_PATHS:
        return None
    names = _PATHS_NEW if nccl >= _NEW_PATHS else _PATHS_OLD
    return names[number] if number < len(names) else None


def _settings(processes: Sequence[ProcessLog]) -> dict[str, str]:
    return {name: value for process in processes for name, value in process.settings.items()}


def of_sockets(
    processes: Sequence[ProcessLog],
    rdma_ports: Sequence[str] | None,
    memlock_kib: int | None,
    rdma_named: str | None,
) -> Cause:
    """Return why NCCL uses sockets instead of RDMA, and what to do."""
    settings = _settings(processes)
    if settings.get("NCCL_IB_DISABLE", "0") not in ("0", ""):
        return (
            "NCCL_IB_DISABLE is set",
            "unset NCCL_IB_DISABLE in the environment, in ~/.nccl.conf, in /etc/nccl.conf and in the inventory",
        )
    if settings.get("NCCL_NET", "").lower() == "socket":
        return "NCCL_NET=Socket is set", "unset NCCL_NET"
    if any(_REGISTRATION.search(text) for process in processes for text in process.warnings):
        return "memory could not be registered for RDMA (memlock)", filled(_MEMLOCK_HINT)
    if any(process.no_libibverbs for process in processes):
        return "libibverbs cannot be loaded where the ranks run (no RDMA userspace)", _USERSPACE_HINT
    if any(process.no_rdma_device for process in processes):
        selector = settings.get("NCCL_IB_HCA")
        if rdma_ports and all(map(is_efa, rdma_ports)):
            return (
                f"NCCL needs plugin aws-ofi-nccl for EFA; it is missing or fails: {', '.join(rdma_ports)}",
                _EFA_HINT,
            )
        if rdma_ports and selector:
            return (
                f"NCCL found no RDMA device for NCCL_IB_HCA={selector}, but the node has {', '.join(rdma_ports)}",
                "fix rdma_devices in the inventory; if it is correct: " + _USERSPACE_HINT,
            )
        if rdma_ports:
            return (
                f"NCCL found no RDMA device, but the node has {', '.join(rdma_ports)}: its userspace is not installed",
                _USERSPACE_HINT,
            )
        if rdma_ports is not None:
            named = f"no port of the inventory's RDMA devices ({rdma_named}) is active"
            return (
                named if rdma_named else "no RDMA port is active on this node, but other nodes have one",
                filled("run clusterctl check INVENTORY --only rdma-link"),
            )
        return (
            "NCCL found no RDMA device where the ranks run",
            "run 'ls /sys/class/infiniband' on the node; if it lists devices: " + _USERSPACE_HINT,
        )
    if memlock_kib is not None and memlock_kib < _SMALL_MEMLOCK_KIB:
        return f"memlock is {memlock_kib} KiB where the ranks run", filled(_MEMLOCK_HINT)
    if any(not process.nics for process in processes):
        return "its log lists no network device", "set NCCL_DEBUG_SUBSYS=INIT,NET"
    return "NCCL chose sockets, and its log does not show why", "run clusterctl explain on the rank's log"


def unsupported(gpu: str | None, ec2_machine: str | None = None) -> str | None:
    """Return the message for a GPU that NICs cannot access by design; None for other and unknown GPUs."""
    return why_no_gpudirect(gpu or "") or why_no_efa_gpudirect(ec2_machine or "")


def too_far(processes: Sequence[ProcessLog]) -> str | None:
    """Return the message for a GPU too far from all NICs for GPUDirect; None if distance is not the cause."""
    said = [entry for process in processes for entry in process.distances]
    # NCCL logs every pair of GPU and NIC, and on a node with several NICs each GPU is far from some of them.
    near = {entry.gpu for entry in said if entry.enabled}
    refused = [entry for entry in said if not entry.enabled and entry.gpu not in near]
    if not refused or not all(all(process.hca_gdr.values()) for process in processes):
        return None
    nccl = version(processes)
    worst = max(refused, key=lambda entry: entry.distance)
    path, limit = path_name(worst.distance, nccl), path_name(worst.limit, nccl)
    if path is not None and path not in _FAR:
        return None
    if "NCCL_NET_GDR_LEVEL" in _settings(processes) and (limit is None or limit in ("LOC", "PIX")):
        return None
    how_far = (
        f"{path}, beyond {limit}" if path and limit else f"distance {worst.distance}, beyond {worst.limit}"
    )
    return (
        f"GPU {worst.gpu} and HCA {worst.hca} are too far apart for GPUDirect RDMA ({how_far}): "
        "NCCL disables it by design; this is common in virtual machines"
    )


def of_host_memory(
    processes: Sequence[ProcessLog],
    *,
    peer_memory: Sequence[str] | None,
    works_elsewhere: bool,
    sends_only: bool,
) -> Cause:
    """Return why RDMA uses host memory, and what to do; ``sends_only``: receiving uses GPUDirect."""
    settings = _settings(processes)
    for name, bad in (("NCCL_NET_GDR_LEVEL", ("LOC", "0", "PIX", "1")), ("NCCL_DMABUF_ENABLE", ("0",))):
        if settings.get(name) in bad:
            return f"{name}={settings[name]} is set", f"unset {name}"
    if sends_only:
        return (
            "only sending uses host memory: NCCL_NET_GDR_READ=0, or GPUs older than Ampere without NVLink",
            "unset NCCL_NET_GDR_READ",
        )
    nccl = version(processes)
    disabled = sorted({name for process in processes for name, works in process.hca_gdr.items() if not works})
    hint = filled(
        "run clusterctl check INVENTORY --only peermem, then clusterctl bootstrap INVENTORY --only peermem"
    )
    if not disabled:
        return "NCCL's log does not show why", "set NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH"
    names = ", ".join(disabled)
    if nccl is not None and nccl < _SEES_NVIDIA_PEERMEM and peer_memory and "nvidia_peermem" in peer_memory:
        return (
            f"NCCL {'.'.join(map(str, nccl))} cannot use nvidia-peermem, the only module (NVIDIA/nccl issue 1676)",
            "use NCCL 2.23 or newer, or DMA-BUF with the open kernel modules",
        )
    if peer_memory == ():
        return f"neither a peer-memory module nor DMA-BUF serves {names}", hint
    if works_elsewhere:
        return (
            f"NIC and GPU cannot access each other on this node ({names}), but on other nodes they can",
            hint,
        )
    return f"NIC and GPU cannot access each other ({names}): no peer-memory module, no DMA-BUF", hint
