"""Bind a rank to its share of the node's CPUs, near its GPU, whatever library moves the data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import torch

from clusterctl.workloads import places, rank_values

_T = TypeVar("_T")


class Gather(Protocol):
    """Return the value of each rank, see :func:`rank_values.gather`."""

    def __call__(self, value: object, read: Callable[[object], _T]) -> list[_T]: ...


@dataclass(frozen=True)
class CpuBinding:
    """Hold how many CPUs a rank is bound to (0: it is not bound) and the reason."""

    cpus: int
    reason: str


class _Bindable(NamedTuple):
    """What a rank sends: its node, whether it is to be bound, whether it is bound, the digest of its CPUs."""

    host: str
    wanted: bool
    bound: bool
    cpus: str

    @classmethod
    def read(cls, value: object) -> _Bindable:
        host, wanted, bound, cpus = rank_values.array(value, 4)
        return cls(
            rank_values.text(host, rank_values.HOST_CHARACTERS),
            rank_values.flag(wanted),
            rank_values.flag(bound),
            rank_values.text(cpus, 64),
        )


def bind(
    place: places.Place,
    device: torch.device,
    gather: Gather,
    *,
    before: frozenset[int],
) -> CpuBinding:
    """Bind this rank; called on all ranks, after they have joined.

    ``before`` has the CPUs that this rank could use before it joined: the
    library may have bound it since. collective_core plans the shares, so without it no rank is bound.
    """
    allowed = frozenset(os.sched_getaffinity(0))
    wanted, unbound = _wanted()
    text = ",".join(map(str, sorted(allowed)))
    mine = _Bindable(place.host, wanted, before != allowed, hashlib.sha256(text.encode()).hexdigest())
    everyone = gather(mine, _Bindable.read)
    if before != allowed:
        return CpuBinding(len(allowed), f"{len(allowed)} CPUs, by the library")
    here = [rank for rank, one in enumerate(everyone) if one.host == place.host]
    if not all(everyone[rank].wanted for rank in here):
        return CpuBinding(0, f"not bound: {unbound or 'another rank of this node is not to be bound'}")
    if len({(everyone[rank].bound, everyone[rank].cpus) for rank in here}) > 1:
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
