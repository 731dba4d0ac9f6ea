"""What joins the GPUs of a node, and what joins the nodes: the inputs of every expected bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# nvidia-smi reports the line rate; data move at the rate after the code: (raw GB/s, NVLink generation, GB/s of data).
# 25.781 and 26.562 GB/s are both shown for links sold as 25 GB/s per direction (V100; H100, H200), 53.125 for those of
# 50 GB/s (B200), 19.92 for 20 (P100), and of an A100's 25 (nccl-tests issue 228), or 25.781. V100 and A100 differ by
# their number of links: 6 at most, and more.
_GENERATIONS = ((19.92, 1, 20.0), (25.0, 3, 25.0), (25.781, 3, 25.0), (26.562, 4, 25.0), (53.125, 5, 50.0))
_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class NvLink:
    """The NVLinks of one GPU: generation, how many, and GB/s of data of one link in one direction."""

    generation: int
    links: int
    gbps_per_link: float

    @property
    def gbps(self) -> float:
        """One GPU's rate in one direction."""
        return self.links * self.gbps_per_link


@dataclass(frozen=True, slots=True)
class RdmaLink:
    """One active RDMA port: its device, number and line rate in Gb/s."""

    device: str
    port: int
    rate_gbitps: float


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """One node's links. ``nvlink`` None: no NVLink, or not the same between all pairs; ``why`` says which."""

    gpus: int
    nvlink: NvLink | None
    why: str = ""
    rdma: tuple[RdmaLink, ...] = ()


def is_efa(device: str) -> bool:
    """Tell whether an RDMA device is an EFA by its name, which is the kernel's (efa_0) or udev's (rdmap16s27)."""
    return device.startswith(("efa_", "rdmap"))


def nvlink(link_gbps: Sequence[float], pairs: Sequence[int], gpus: int) -> tuple[NvLink | None, str]:
    """Read the rates of one GPU's active links, and of all pairs of GPUs the number of links between them.

    Only GPUs that all reach each other with all their links (NVSwitch) have one rate that bounds them all.
    """
    if not link_gbps:
        return None, "the GPUs have no NVLink" if gpus > 1 else "one GPU"
    known = [
        (generation, rate)
        for raw, generation, rate in _GENERATIONS
        if all(abs(value / raw - 1) < _TOLERANCE for value in link_gbps)
    ]
    if not known:
        return None, f"links of {link_gbps[0]:g} GB/s belong to no NVLink generation that is known here"
    if len(pairs) != gpus * (gpus - 1) or set(pairs) != {len(link_gbps)}:
        return None, "not every pair of GPUs is joined by all NVLinks: no NVSwitch"
    generation, rate = known[0]
    if generation == 3 and len(link_gbps) <= 6:
        generation = 2
    return NvLink(generation, len(link_gbps), rate), ""


def selects(selector: str | None, device: str, port: int) -> bool:
    """Tell whether NCCL_IB_HCA takes a port: names are prefixes unless ``=`` stands before, ``^`` excludes.

    Source: NCCL user guide, NCCL_IB_HCA; src/misc/socket.cc parses it.
    """
    if not selector:
        return True
    exclude = selector.startswith("^")
    rest = selector[1:] if exclude else selector
    exact = rest.startswith("=")
    found = False
    for word in rest.removeprefix("=").split(","):
        name, _, number = word.strip().partition(":")
        named = device == name if exact else device.startswith(name)
        found |= bool(name) and named and (not number or number == str(port))
    return found != exclude
