"""Build the environment of ranks from settings: variables of NCCL, Horovod, LightCC, Gloo and collective_core."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterctl.errors import ArtifactError
from clusterctl.inventory.field_types import too_many_hcas

Library = Literal["nccl", "gloo", "ccore"]
_GDR_LEVEL = re.compile(r"LOC|PIX|PXB|PHB|SYS|[0-5]")
_DEBUG = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Hold how ranks communicate; settings that are not given stay unset, so the library's default applies."""

    library: Library = "nccl"
    debug: str | None = None
    """NCCL_DEBUG."""
    debug_subsystems: str | None = None
    """NCCL_DEBUG_SUBSYS."""
    debug_file: str | None = None
    """NCCL_DEBUG_FILE."""
    ib_disable: bool | None = None
    socket_ifname: str | None = None
    rdma_devices: str | None = None
    """NCCL_IB_HCA."""
    gid_index: int | None = None
    """NCCL_IB_GID_INDEX: since 2.21 NCCL selects a better one per device itself (NCCL user guide)."""
    gdr_level: str | None = None
    """NCCL_NET_GDR_LEVEL: LOC, PIX, PXB, PHB, SYS, or the old numbers 0 to 5."""
    fusion_threshold_bytes: int | None = None
    """HOROVOD_FUSION_THRESHOLD."""
    cycle_time_ms: int | None = None
    """HOROVOD_CYCLE_TIME."""
    two_d: bool | None = None
    """LIGHT_2D_ALLREDUCE: reduce inside groups of ``intra_size`` ranks first, then between groups."""
    intra_size: int | None = None
    hierarchical_threshold_bytes: int | None = None
    top_k: bool | None = None
    """LIGHT_TOPK_ALLREDUCE: send only the largest values of a gradient."""
    top_k_ratio: float | None = None
    top_k_threshold_bytes: int | None = None
    top_k_fp16: bool | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the inventory; the settings above take precedence."""
    forward: tuple[str, ...] = ("LD_LIBRARY_PATH", "PATH")
    """Names of variables to copy from the environment in which the ranks are started."""


def variables(settings: Communication, *, np: int | None = None) -> dict[str, str | None]:
    """Return the variables in the order in which they are written; None: forwarded by name.

    ``np`` is the number of ranks, if known. Raise ArtifactError for values that the library would misread, and for
    contradictions.
    """
    _check(settings, np)
    said: dict[str, str | float | bool | None] = {}
    if settings.library == "nccl":
        said |= {
            "NCCL_DEBUG": settings.debug,
            "NCCL_DEBUG_SUBSYS": settings.debug_subsystems,
            "NCCL_DEBUG_FILE": settings.debug_file,
            "NCCL_IB_DISABLE": settings.ib_disable,
            "NCCL_SOCKET_IFNAME": settings.socket_ifname,
            "NCCL_IB_HCA": settings.rdma_devices,
            "NCCL_IB_GID_INDEX": settings.gid_index,
            "NCCL_NET_GDR_LEVEL": settings.gdr_level,
        }
    elif settings.library == "gloo":
        said["GLOO_SOCKET_IFNAME"] = _plain_interfaces(settings.socket_ifname)
    else:
        said["CCORE_SOCKET_IFNAME"] = settings.socket_ifname
    said |= {
        "HOROVOD_FUSION_THRESHOLD": settings.fusion_threshold_bytes,
        "HOROVOD_CYCLE_TIME": settings.cycle_time_ms,
        "LIGHT_INTRA_SIZE": settings.intra_size,
        "LIGHT_2D_ALLREDUCE": settings.two_d,
        "LIGHT_HIERARCHICAL_THRESHOLD": settings.hierarchical_threshold_bytes,
        "LIGHT_TOPK_ALLREDUCE": settings.top_k,
        "LIGHT_TOPK_RATIO": settings.top_k_ratio,
        "LIGHT_TOPK_THRESHOLD": settings.top_k_threshold_bytes,
        "LIGHT_TOPK_FP16": settings.top_k_fp16,
    }
    result: dict[str, str | None] = {k: _text(v) for k, v in said.items() if v is not None}
    for name, value in settings.extra.items():
        result.setdefault(name, value)
    for name in settings.forward:
        result.setdefault(name, None)
    _check_hcas(result.get("NCCL_IB_HCA"))
    return result


def rendezvous(
    *, master_address: str, master_port: int, node_rank: int, nodes: int, ranks_per_node: int
) -> dict[str, str]:
    """Return the rendezvous variables for containers that are started one per node (ACCL's BERT example).

    RANK and WORLD_SIZE count nodes here: the script in the container starts the ranks of its node.
    """
    return {
        "MASTER_ADDR": master_address,
        "MASTER_PORT": str(master_port),
        "RANK": str(node_rank),
        "WORLD_SIZE": str(nodes),
        "NPROC_PER_NODE": str(ranks_per_node),
    }


def _text(value: str | float | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _plain_interfaces(selector: str | None) -> str | None:
    if selector is not None and selector.startswith("^"):
        raise ArtifactError(
            f"Gloo needs interface names and cannot handle the exclusion {selector!r}",
            hint="set socket_ifname to the interface to use, such as eth0",
        )
    return selector.lstrip("=") if selector is not None else None


def _check_hcas(selector: str | None) -> None:
    problem = too_many_hcas(selector or "")
    if problem is not None:
        raise ArtifactError(f"NCCL_IB_HCA {problem}", hint="shorten rdma_devices, or NCCL_IB_HCA in env")


def _check(settings: Communication, np: int | None) -> None:
    light = (settings.two_d, settings.top_k, settings.intra_size, settings.top_k_ratio)
    if settings.library != "nccl":
        if any(value is not None for value in (*light, settings.fusion_threshold_bytes)):
            raise ArtifactError(
                f"the 2D, top-k and fusion variables belong to LightCC and Horovod over NCCL, "
                f"not to {settings.library}",
                hint="remove them, or choose --library nccl",
            )
        if settings.gdr_level is not None or settings.gid_index is not None:
            raise ArtifactError(
                f"{settings.library} uses no GPUDirect RDMA: GDR level and GID index would be ignored",
                hint="remove them, or choose --library nccl",
            )
    if settings.debug is not None and settings.debug.upper() not in _DEBUG:
        raise ArtifactError(
            f"invalid NCCL_DEBUG {settings.debug!r}", hint=f"choose from: {', '.join(_DEBUG)}"
        )
    if settings.gdr_level is not None and not _GDR_LEVEL.fullmatch(settings.gdr_level):
        raise ArtifactError(
            f"invalid GDR level {settings.gdr_level!r}",
            hint="choose from LOC, PIX, PXB, PHB, SYS, or 0 to 5; NCCL's default is PXB",
        )
    if settings.gid_index is not None and not 0 <= settings.gid_index <= 255:
        raise ArtifactError(
            f"invalid GID index {settings.gid_index}", hint="use 0 or more; RoCE v2 usually has 3"
        )
    if settings.intra_size is not None and settings.intra_size < 1:
        raise ArtifactError(f"the group size must be at least 1, not {settings.intra_size}")
    if settings.two_d and settings.intra_size is not None and np is not None and np % settings.intra_size:
        raise ArtifactError(
            f"{np} ranks do not divide into groups of {settings.intra_size} for the 2D all-reduce",
            hint="set --intra-size to the number of GPUs per node",
        )
    if settings.top_k_ratio is not None and not 0 < settings.top_k_ratio <= 1:
        raise ArtifactError(f"the top-k ratio must be above 0 and at most 1, not {settings.top_k_ratio}")
