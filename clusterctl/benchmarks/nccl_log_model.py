"""What NCCL's log says about a run: one ``ProcessLog`` per process, and the algorithms that were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterctl.benchmarks.nccl_transport import Transport

Direction = Literal["send", "receive", "local"]


@dataclass(frozen=True, slots=True)
class GdrDistance:
    """NCCL's decision on one GPU and NIC: path types as numbers, whose meaning depends on the version."""

    gpu: str
    hca: str
    enabled: bool
    distance: int
    limit: int


@dataclass(frozen=True, slots=True)
class GraphSearch:
    """One line of the search for rings and trees (src/graph/search.cc): GB/s per channel, and path types."""

    pattern: int
    channels: int
    intra_gbps: float
    inter_gbps: float
    intra_path: str
    inter_path: str


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """What one process's lines say. Host and pid are of the lines' own prefix; the host is cut at its first dot.

    ``source`` is what the caller says of the text (the rank whose output it is), None for a merged log.
    ``channels`` counts the channels by direction and way; directions of P2P and SHM are ``local``.
    """

    source: int | None
    host: str
    pid: int
    versions: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    nranks: int | None = None
    nodes: int | None = None
    networks: tuple[str, ...] = ()
    """What ``Using network`` names: IB, Socket, a plugin's name."""
    plugins: tuple[str, ...] = ()
    """Lines about loaded network, tuner and other plugins."""
    nics: tuple[str, ...] = ()
    """mlx5_0:1/IB and the like, in NCCL's order; interfaces for sockets."""
    channels: Mapping[tuple[Direction, Transport], int] = field(default_factory=dict)
    hca_gdr: Mapping[str, bool] = field(default_factory=dict)
    """Of each HCA, whether GPUDirect RDMA works with it."""
    mechanisms: tuple[str, ...] = ()
    """dma-buf, nvidia-peermem: what the log says is there."""
    distances: tuple[GdrDistance, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables that NCCL says were set by the environment."""
    mnnvl: bool | None = None
    """Whether NVLink joins nodes; None: the log does not say (before 2.21)."""
    nvls: bool = False
    no_rdma_device: bool = False
    no_libibverbs: bool = False
    graphs: tuple[GraphSearch, ...] = ()
    connected: tuple[str, ...] = ()
    """all rings, all trees, NVLS tree...: what was connected, so that the run may have used it."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm and protocol that NCCL chose for a collective of some size (subsystem TUNING)."""

    collective: str
    size_bytes: int
    algorithm: str
    protocol: str


@dataclass(frozen=True, slots=True)
class NcclLog:
    """The whole log."""

    processes: tuple[ProcessLog, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of all processes, each once, sorted."""
        return tuple(sorted({version for process in self.processes for version in process.versions}))
