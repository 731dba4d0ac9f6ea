"""Build the environment of ranks: variables of NCCL, Horovod, LightCC, Gloo and collective_core, by precedence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, cast

from clusterctl.errors import ArtifactError
from clusterctl.inventory.field_types import too_many_hcas
from clusterctl.inventory.interfaces import Interfaces
from clusterctl.text.secret.scrub import names_a_secret

Library = Literal["nccl", "gloo", "ccore", "nccl+ccore", "accl", "acspeed", "aiacc", "horovod", "lightcc"]
"""``nccl+ccore``: NCCL behind collective_core's NCCL-symbol library, which takes the calls that it makes faster.

Those from ``accl`` on are libraries that a node may have (:mod:`launch.foreign_library`).
"""
Backend = Literal["nccl", "gloo", "ccore", "accl", "horovod", "lightcc"]
# NCCL_SOCKET_IFACE resembles NCCL_SOCKET_IFNAME by 0.91; NCCL_TIMEOUT, another thing, NCCL_IB_TIMEOUT by 0.89.
_RESEMBLANCE = 0.9
_GDR_LEVEL = re.compile(r"LOC|PIX|PXB|PHB|SYS|[0-5]")
_DEBUG = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")
# Variables and the fields of Communication that set them: those of each library, then those of the layers above NCCL.
_NCCL = {
    "NCCL_DEBUG": "debug",
    "NCCL_DEBUG_SUBSYS": "debug_subsystems",
    "NCCL_DEBUG_FILE": "debug_file",
    "NCCL_IB_DISABLE": "ib_disable",
    "NCCL_SOCKET_IFNAME": "interfaces",
    "NCCL_IB_HCA": "rdma_devices",
    "NCCL_IB_GID_INDEX": "gid_index",
    "NCCL_NET_GDR_LEVEL": "gdr_level",
}
_OF_LIBRARY: dict[Library, dict[str, str]] = {
    "nccl": _NCCL,
    "gloo": {"GLOO_SOCKET_IFNAME": "interfaces"},
    "ccore": {"CCORE_SOCKET_IFNAME": "interfaces"},
    "nccl+ccore": _NCCL,
    "accl": {},
    "acspeed": _NCCL,
    "aiacc": _NCCL,
    "horovod": _NCCL,
    "lightcc": _NCCL,
}
_BACKENDS: dict[Library, Backend] = {"nccl+ccore": "nccl", "acspeed": "nccl", "aiacc": "nccl"}
_ABOVE = {
    "HOROVOD_FUSION_THRESHOLD": "fusion_threshold_bytes",
    "HOROVOD_CYCLE_TIME": "cycle_time_ms",
    "LIGHT_INTRA_SIZE": "intra_size",
    "LIGHT_2D_ALLREDUCE": "two_d",
    "LIGHT_HIERARCHICAL_THRESHOLD": "hierarchical_threshold_bytes",
    "LIGHT_TOPK_ALLREDUCE": "top_k",
    "LIGHT_TOPK_RATIO": "top_k_ratio",
    "LIGHT_TOPK_THRESHOLD": "top_k_threshold_bytes",
    "LIGHT_TOPK_FP16": "top_k_fp16",
}
# The order in which variables are written, which is that of the vendors' guides.
_ORDER = (*(name for fields in _OF_LIBRARY.values() for name in fields), *_ABOVE)


def backend(library: Library) -> Backend:
    """Return the library that programs call: of those that stand in for NCCL, or in front of it, it is NCCL."""
    return _BACKENDS.get(library) or cast("Backend", library)


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
    interfaces: Interfaces | None = None
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


@dataclass(frozen=True, slots=True)
class Environment:
    """Hold the variables of all ranks; one with the value None is copied from the launching process.

    ``secrets`` are the values that must not appear in a command line; in ``variables`` they have the value None.
    """

    variables: tuple[tuple[str, str | None], ...]
    secrets: tuple[tuple[str, str], ...] = ()


def variables(settings: Communication, *, np: int | None = None) -> dict[str, str]:
    """Return the variables of these settings; unset settings are left out.

    ``np`` is the number of ranks, if known. Raise ArtifactError for values that the library would misread, and for
    contradictions.
    """
    _check(settings, np)
    fields = _OF_LIBRARY[settings.library] | _ABOVE
    found = {name: _text(getattr(settings, field), settings.library) for name, field in fields.items()}
    return {name: value for name, value in found.items() if value is not None}


def build(
    *,
    options: Mapping[str, str] = MappingProxyType({}),
    free: Mapping[str, str] = MappingProxyType({}),
    settings: Mapping[str, str] = MappingProxyType({}),
    chosen: Mapping[str, str] = MappingProxyType({}),
    forward: Sequence[str] = (),
) -> Environment:
    """Return the environment of all ranks of a launch.

    The parameters are in order of precedence, highest first: variables that the command line names, the free ``env`` of
    the inventory, its settings (``socket_ifname``, ``rdma_devices``), what clusterctl chooses, and names that are
    copied from the environment in which the launcher starts. Raise ArtifactError for values that NCCL would misread.
    """
    layers = (chosen, settings, free, options)
    merged = {name: value for layer in layers for name, value in layer.items()}
    known = [name for name in _ORDER if name in merged]
    before = [name for name in chosen if name not in known]
    names = dict.fromkeys((*before, *known, *merged, *forward))
    _check_hcas(merged.get("NCCL_IB_HCA"))
    hidden = {n: value for n, value in merged.items() if names_a_secret(n, value)}
    shown = {name: None if name in hidden else merged.get(name) for name in names}
    return Environment(tuple(shown.items()), tuple(hidden.items()))


def misspelt(names: Iterable[str]) -> list[str]:
    """Return a sentence for each variable that no library reads and that resembles one that a library reads.

    One that resembles none may belong to a plugin or to the user's program.
    """
    given = [name for name in dict.fromkeys(names) if name.startswith(("NCCL_", "CCORE_"))]
    if not given:
        return []
    # Read only where a variable could be wrong.
    from clusterctl.facts.vendors import tables

    found = []
    for table in tables.variables().libraries:
        known = {*table.names, *table.elsewhere}
        for name in (one for one in given if one.startswith(table.prefix) and one not in known):
            near = get_close_matches(name, table.names, n=1, cutoff=_RESEMBLANCE)
            if near:
                releases = f" {table.releases}" if table.releases else ""
                found.append(f"{table.library}{releases} does not read {name}; did you mean {near[0]}?")
    return found


def _text(value: Interfaces | str | float | bool | None, library: Library) -> str | None:
    if isinstance(value, Interfaces):
        return _plain(value) if library == "gloo" else value.text
    return str(int(value)) if isinstance(value, bool) else None if value is None else str(value)


def _plain(selector: Interfaces) -> str:
    if selector.excludes:
        raise ArtifactError(
            f"Gloo needs interface names and cannot handle the exclusion {selector.text!r}",
            hint="set socket_ifname to the interface to use, such as eth0",
        )
    return selector.listed


def _check_hcas(selector: str | None) -> None:
    problem = too_many_hcas(selector or "")
    if problem is not None:
        raise ArtifactError(f"NCCL_IB_HCA {problem}", hint="shorten rdma_devices, or NCCL_IB_HCA in env")


def _check(settings: Communication, np: int | None) -> None:
    light = (settings.two_d, settings.top_k, settings.intra_size, settings.top_k_ratio)
    if _OF_LIBRARY[settings.library] is not _NCCL:
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
