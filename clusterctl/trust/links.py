"""Describe the links between GPUs and between nodes, from which expected bandwidths are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# nvidia-smi reports the line rate, which exceeds the data rate: (raw GB/s, NVLink generation, GB/s of data). Links sold
# as 25 GB/s per direction show 25.781 or 26.562 (V100; H100, H200), or 25 (A100, nccl-tests issue 228); links of
# 50 GB/s show 53.125 (B200), links of 20 GB/s 19.92 (P100). V100 and A100 differ by their number of links: V100 has at
# most 6, A100 more.
_GENERATIONS = ((19.92, 1, 20.0), (25.0, 3, 25.0), (25.781, 3, 25.0), (26.562, 4, 25.0), (53.125, 5, 50.0))
_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class NvLink:
    """Hold the NVLinks of one GPU: generation, number, and GB/s of data per link and direction."""

    generation: int
    links: int
    gbps_per_link: float

    @property
    def gbps(self) -> float:
        """Return one GPU's rate in one direction (GB/s)."""
        return self.links * self.gbps_per_link


@dataclass(frozen=True, slots=True)
class RdmaLink:
    """Hold one active RDMA port: its device, number and line rate in Gb/s."""

    device: str
    port: int
    rate_gbitps: float


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """Hold one node's links. ``nvlink``: None without NVLink, or if pairs of GPUs differ; ``why`` gives the reason."""

    gpus: int
    nvlink: NvLink | None
    why: str = ""
    rdma: tuple[RdmaLink, ...] = ()


def is_efa(device: str) -> bool:
    """Tell by its name, from the kernel (efa_0) or udev (rdmap16s27), whether an RDMA device is an EFA."""
    return device.startswith(("efa_", "rdmap"))


def nvlink(link_gbps: Sequence[float], pairs: Sequence[int], gpus: int) -> tuple[NvLink | None, str]:
    """Return the NVLinks from the rates of one GPU's links (GB/s) and the links between each pair of GPUs.

    A common rate exists only if all links of a GPU reach every other GPU (NVSwitch); otherwise return None and why.
    """
    if not link_gbps:
        return None, "the GPUs have no NVLink" if gpus > 1 else "one GPU"
    known = [
        (generation, rate)
        for raw, generation, rate in _GENERATIONS
        if all(abs(value / raw - 1) < _TOLERANCE for value in link_gbps)
    ]
    if not known:
        return None, f"links of {link_gbps[0]:g} GB/s match no known NVLink generation"
    if len(pairs) != gpus * (gpus - 1) or set(pairs) != {len(link_gbps)}:
        return None, "not every pair of GPUs is connected by all NVLinks: no NVSwitch"
    generation, rate = known[0]
    if generation == 3 and len(link_gbps) <= 6:
        generation = 2
    return NvLink(generation, len(link_gbps), rate), ""
