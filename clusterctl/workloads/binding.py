"""Bind a rank to its share of the node's CPUs, near its GPU, whatever library moves the data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from clusterctl.workloads import places


@dataclass(frozen=True)
class CpuBinding:
    """Hold how many CPUs a rank is bound to (0: it is not bound) and the reason."""

    cpus: int
    reason: str


def bind(
    place: places.Place,
    device: torch.device,
    gather: Callable[[object], list[Any]],
    *,
    before: frozenset[int],
) -> CpuBinding:
    """Bind this rank; called on all ranks, after they have joined.

    ``gather`` returns an object of each rank. ``before`` has the CPUs that this rank could use before it joined: the
    library may have bound it since. collective_core plans the shares, so without it no rank is bound.
    """
    allowed = frozenset(os.sched_getaffinity(0))
    wanted, unbound = _wanted()
    text = ",".join(map(str, sorted(allowed)))
    mine = (place.host, wanted, before != allowed, hashlib.sha256(text.encode()).hexdigest())
    everyone = gather(mine)
    if before != allowed:
        return CpuBinding(len(allowed), f"{len(allowed)} CPUs, by the library")
    here = [rank for rank, one in enumerate(everyone) if one[0] == place.host]
    if not all(everyone[rank][1] for rank in here):
        return CpuBinding(0, f"not bound: {unbound or 'another rank of this node is not to be bound'}")
    if len({everyone[rank][2:] for rank in here}) > 1:
        return CpuBinding(0, "not bound: the launcher has bound the ranks of this node already")
    from collective_core import affinity

    gpus = torch.cuda.device_count() if device.type == "cuda" else 0
    near = [affinity.node_of_gpu(local % gpus) if gpus else None for local in range(len(here))]
    plan = affinity.plan(affinity.read_topology(allowed), here.index(place.rank), near)
    if plan.cpus:
        affinity.bind(plan.cpus)
    return CpuBinding(len(plan.cpus), f"{len(plan.cpus)} CPUs, {plan.reason}" if plan.cpus else plan.reason)


def _wanted() -> tuple[bool, str]:
    """Return whether this rank is to be bound, and the reason if it is not."""
    try:
        from collective_core.errors import CollectiveCoreError

        from collective_core import environment
    except ImportError:
        return False, "collective_core is not installed"
    try:
        wanted = environment.flag("CCORE_CPU_BINDING", fallback=True)
    except CollectiveCoreError as error:
        raise places.RankError(str(error)) from None
    return wanted, "" if wanted else f"{environment.spelling('CCORE_CPU_BINDING')} switches it off"
