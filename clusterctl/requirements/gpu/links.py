"""Find GPUs with fewer PCIe lanes or active NVLinks than most of their model: they work, but slowly.

There are no thresholds: the expected number is that of most GPUs of the same name on this node and its peers. The
speed of the lanes is not compared, because it falls while a GPU is idle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterctl.requirements.fleet.votes import OncePerFleet, majority
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import Gpu
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.requirements.fleet.view import Fleet


@dataclass(frozen=True, slots=True)
class _Usual:
    """By GPU name: how many GPUs have each number of lanes, and each number of active NVLinks."""

    lanes: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    nvlinks: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))


def _nvlinks(facts: NodeFacts) -> dict[int, int]:
    """Return the number of active NVLinks by GPU index, without GPUs in MIG mode; empty on a node with one GPU."""
    gpus = facts.gpu.devices.or_else(())
    in_mig = {gpu.index for gpu in gpus if gpu.mig}
    if len(gpus) < 2:
        return {}
    return {
        of.gpu: sum(speed is not None for speed in of.link_gbps)
        for of in facts.gpu.nvlinks.or_else(())
        if of.gpu not in in_mig
    }


def _count(fleet: Fleet) -> _Usual:
    usual = _Usual()
    for facts in fleet.facts.values():
        active = _nvlinks(facts)
        for gpu in facts.gpu.devices.or_else(()):
            if gpu.link.width:
                usual.lanes[gpu.name][gpu.link.width] += 1
            if gpu.index in active:
                usual.nvlinks[gpu.name][active[gpu.index]] += 1
    return usual


_usual = OncePerFleet(_count)


def warnings(facts: NodeFacts, fleet: Fleet) -> tuple[str, ...]:
    """Return warnings about GPUs with fewer lanes or links than most of their model."""
    most, active = _usual(fleet), _nvlinks(facts)
    gpus = facts.gpu.devices.or_else(())
    lanes = [_less(gpu, gpu.link.width or None, most.lanes, "PCIe lanes") for gpu in gpus]
    links = [_less(gpu, active.get(gpu.index), most.nvlinks, "active NVLinks") for gpu in gpus]
    return tuple(some(found) for found in ([*filter(None, lanes)], [*filter(None, links)]) if found)


def _less(gpu: Gpu, has: int | None, counts: defaultdict[str, Counter[int]], what: str) -> str | None:
    usual = majority(counts[gpu.name]) if gpu.name in counts else None
    if has is None or usual is None or has >= usual:
        return None
    return f"GPU {gpu.index} has {has} {what}, most {gpu.name} have {usual}"
