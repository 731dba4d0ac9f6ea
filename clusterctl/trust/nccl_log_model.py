"""Model the content of NCCL's log: one ``ProcessLog`` per process, and the chosen algorithms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from clusterctl.documents.evidence import Choice, GraphSearch
from clusterctl.trust.nccl_transport import ChannelTransport, parse

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


_CHOICE = re.compile(r"(\w+): (\d{1,18}) Bytes -> Algo (\w+) proto (\w+)")
_DIRECTIONS: dict[str, Direction] = {"[send] ": "send", "[receive] ": "receive", "": "local"}
NO_LIBIBVERBS = "Failed to open libibverbs"
KEPT = 20
"""The number of lines of each kind that is kept per process."""
_KEPT_CHOICES = 4096


@dataclass(slots=True)
class ProcessState:
    """Hold one process's state so far. Lists have no duplicates and are bounded: a log may repeat lines without end."""

    source: int | None
    host: str
    pid: int
    versions: dict[str, None] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    nranks: int | None = None
    nodes: int | None = None
    networks: dict[str, None] = field(default_factory=dict)
    plugins: dict[str, None] = field(default_factory=dict)
    nics: dict[str, None] = field(default_factory=dict)
    channels: dict[bytes, int] = field(default_factory=dict)
    """Channels by direction and transport as written, ``[send] via NET/IB/0``; they are parsed once, at the end."""
    hca_gdr: dict[str, bool] = field(default_factory=dict)
    mechanisms: dict[str, None] = field(default_factory=dict)
    distances: dict[GdrDistance, None] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    mnnvl: bool | None = None
    nvls: bool = False
    no_rdma_device: bool = False
    no_libibverbs: bool = False
    graphs: dict[GraphSearch, None] = field(default_factory=dict)
    connected: dict[str, None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def warning(self, text: str) -> None:
        """Add the text of a warning."""
        self.no_libibverbs |= text.startswith(NO_LIBIBVERBS)
        if len(self.warnings) < KEPT:
            self.warnings[text] = None

    def frozen(self) -> ProcessLog:
        """Return the state as an immutable value."""
        return ProcessLog(
            source=self.source,
            host=self.host,
            pid=self.pid,
            versions=tuple(self.versions),
            ranks=tuple(sorted(self.ranks)),
            nranks=self.nranks,
            nodes=self.nodes,
            networks=tuple(self.networks),
            plugins=tuple(self.plugins),
            nics=tuple(self.nics),
            channels=dict(_read_channels(tuple(self.channels.items()))),
            hca_gdr=dict(self.hca_gdr),
            mechanisms=tuple(self.mechanisms),
            distances=tuple(self.distances),
            settings=dict(self.settings),
            mnnvl=self.mnnvl,
            nvls=self.nvls,
            no_rdma_device=self.no_rdma_device,
            no_libibverbs=self.no_libibverbs,
            graphs=tuple(self.graphs),
            connected=tuple(self.connected),
            warnings=tuple(self.warnings),
        )


@lru_cache(maxsize=1024)
def _read_channels(
    written: tuple[tuple[bytes, int], ...],
) -> Mapping[tuple[Direction, ChannelTransport], int]:
    """Parse channels, cached because the processes of a node usually have the same channels."""
    found: dict[tuple[Direction, ChannelTransport], int] = {}
    for said, count in written:
        direction, _, via = said.decode("utf-8", "replace").partition("via ")
        way = parse(via)
        if way is not None:
            key = (_DIRECTIONS[direction], way)
            found[key] = found.get(key, 0) + count
    return found


class Algorithms:
    """Collect distinct choices of algorithms, up to a limit."""

    def __init__(self) -> None:
        self._seen: dict[Choice, None] = {}
        self._lines: set[bytes] = set()

    def line(self, text: bytes) -> None:
        """Add a line of the subsystem TUNING."""
        if text not in self._lines and len(self._seen) < _KEPT_CHOICES:
            self._lines.add(text)
            if match := _CHOICE.match(text.decode("utf-8", "replace")):
                self._seen[Choice(match[1], int(match[2]), match[3].upper(), match[4].upper())] = None

    def frozen(self) -> tuple[Choice, ...]:
        """Return the choices, sorted by collective and size."""
        return tuple(sorted(self._seen, key=lambda c: (c.collective, c.size_bytes, c.algorithm)))
