"""Model the content of NCCL's log: one ``ProcessLog`` per process, and the chosen algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterctl.documents.evidence import Choice, GraphSearch
from clusterctl.trust.nccl_transport import ChannelTransport

Direction = Literal["send", "receive", "local"]


@dataclass(frozen=True, slots=True)
class GdrDistance:
    """Hold NCCL's decision on one GPU and NIC; the meaning of the path type numbers depends on the version."""

    gpu: str
    hca: str
    enabled: bool
    distance: int
    limit: int


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """Hold what one process logged. Host and pid come from the lines' prefix; the host is cut at its first dot.

    ``source`` is the rank that wrote the output, as the caller gave it; None for a merged log.
    ``channels`` counts the channels by direction and transport; directions of P2P and SHM are ``local``.
    """

    source: int | None
    host: str
    pid: int
    versions: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    nranks: int | None = None
    nodes: int | None = None
    networks: tuple[str, ...] = ()
    """The network from ``Using network``: IB, Socket, a plugin's name."""
    plugins: tuple[str, ...] = ()
    """Lines about loaded network, tuner and other plugins."""
    nics: tuple[str, ...] = ()
    """mlx5_0:1/IB and the like, in NCCL's order; interfaces for sockets."""
    channels: Mapping[tuple[Direction, ChannelTransport], int] = field(default_factory=dict)
    hca_gdr: Mapping[str, bool] = field(default_factory=dict)
    """Whether GPUDirect RDMA works, by HCA."""
    mechanisms: tuple[str, ...] = ()
    """dma-buf, nvidia-peermem: the support that the log reports."""
    distances: tuple[GdrDistance, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables that NCCL reports as set by the environment."""
    mnnvl: bool | None = None
    """Whether NVLink connects nodes; None: not in the log (before 2.21)."""
    nvls: bool = False
    no_rdma_device: bool = False
    no_libibverbs: bool = False
    graphs: tuple[GraphSearch, ...] = ()
    connected: tuple[str, ...] = ()
    """all rings, all trees, NVLS tree...: connected, so the run may have used them."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NcclLog:
    """Hold the whole log."""

    processes: tuple[ProcessLog, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """Return the distinct versions of all processes, sorted."""
        return tuple(sorted({version for process in self.processes for version in process.versions}))
