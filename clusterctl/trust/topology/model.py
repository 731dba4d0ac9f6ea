"""Hold one node's topology: what is attached to each CPU, the NVLinks, and the rings and trees that NCCL chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from clusterctl.documents.evidence import GraphOfNode, NvLinkBundle
from clusterctl.documents.proof import TopologyPart

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""PCI Express generations by their transfer rate in GT/s."""
NVSWITCH = "NVSwitch"


def pcie(speed_gtps: float | None, width: int | None) -> str:
    """Return a PCIe link as ``Gen5 x16``; empty if neither rate nor width is known."""
    words = [f"Gen{_GENERATIONS[speed_gtps]}"] if speed_gtps in _GENERATIONS else []
    return " ".join([*words, *([f"x{width}"] if width else [])])


@dataclass(frozen=True, slots=True)
class Attached:
    """Hold a switch, GPU or network card, its link upwards, and what is below it.

    ``name``: ``GPU 0``, ``mlx5_0``, empty for a switch; ``rate``: the line rate of a card; ``degraded``: what is wrong
    with the link.
    """

    kind: Literal["switch", "gpu", "nic"]
    name: str
    address: str
    link: str
    width: int | None = None
    rate: str = ""
    degraded: str = ""
    below: tuple[Attached, ...] = ()

    def part(self) -> TopologyPart:
        """Return this part as a part of ``proof.topology``."""
        return TopologyPart(
            kind=self.kind,
            name=self.name,
            address=self.address,
            link=self.link,
            rate=self.rate or None,
            degraded=self.degraded or None,
            below=tuple(one.part() for one in self.below) or None,
        )


@dataclass(frozen=True, slots=True)
class NumaDomain:
    """Hold what is attached to the CPUs of one NUMA node."""

    name: str
    below: tuple[Attached, ...]


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """Hold a node's topology and its source: NCCL's dump, or the node's facts."""

    source: Literal["nccl", "facts"]
    domains: tuple[NumaDomain, ...]
    nvlinks: tuple[NvLinkBundle, ...]
    graphs: tuple[GraphOfNode, ...] = ()

    def labels(self) -> dict[str, str]:
        """Return what must be equal on equal nodes, by the name of a GPU, a card or an NVLink.

        Addresses and serial numbers are left out. A switch has no name of its own: it is known by its GPUs.
        """
        found: dict[str, str] = {}
        for domain in self.domains:
            for part, above in _walk(domain.below, ""):
                if part.kind != "switch":
                    words = (part.link, part.degraded, part.rate, above, domain.name)
                    found[part.name] = ", ".join(word for word in words if word)
        for bundle in self.nvlinks:
            found[f"NVLinks of {bundle.gpu} to {bundle.to}"] = str(bundle.links)
        return found


def _walk(parts: tuple[Attached, ...], above: str) -> Iterator[tuple[Attached, str]]:
    for part in parts:
        yield part, above
        gpus = [one.name for one in part.below if one.kind == "gpu"]
        yield from _walk(part.below, f"on the switch of {' and '.join(gpus)}" if gpus else "on a switch")
