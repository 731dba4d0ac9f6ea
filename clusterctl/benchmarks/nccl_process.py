"""What is gathered of one process while NCCL's log is read, and the algorithms of the whole run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from clusterctl.benchmarks.nccl_log_model import Choice, Direction, GdrDistance, GraphSearch, ProcessLog
from clusterctl.benchmarks.nccl_transport import Transport, parse

_VERSION = re.compile(r"NCCL version (\S+)")
_SETTING = re.compile(r"(NCCL_\w+) set (?:by environment )?to (.*?)\.?$")
_NETWORK = re.compile(r"Using network (.+?)\s*$")
_USING = re.compile(r"NET/[^:]*: Using (.*)$")
_NIC = re.compile(r"\[\d+\]\s*(\S+)")
_HCA = re.compile(
    r"NET/(?P<network>[^:]*?) ?: GPU Direct RDMA (?:\((?P<how>[\w-]+)\) )?(?P<word>Enabled|Disabled|enabled)"
    r" for HCA \d+ '(?P<name>[^' ]+)"
)
_DISTANCE = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU (\S+) / HCA (\S+) \(distance (\d+) (?:>|<|<=|>=) (\d+)\)"
)
_RANKS = re.compile(r"rank (\d+) n[rR]anks (\d+)(?: nNodes (\d+))?")
_MNNVL = re.compile(r" MNNVL ([01])")
_GRAPH = re.compile(
    r"Pattern (\d+), crossNic \d+, nChannels (\d+), (?:bw|speed) ([\d.]+)/([\d.]+), type (\w+)/(\w+)"
)
_CHOICE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
_DIRECTIONS: dict[bytes, Direction] = {b"send": "send", b"receive": "receive", b"": "local"}
_MECHANISMS = {"dmabuf": "dma-buf", "nvidia-peermem": "nvidia-peermem"}
_NET_PLUGIN = ("NET/Plugin", "NET/OFI ")
_NO_LIBIBVERBS = "Failed to open libibverbs"
_KEPT = 20
_KEPT_DISTANCES = 1024
_KEPT_CHOICES = 4096


@dataclass(slots=True)
class ProcessState:
    """One process's facts so far. Lists are sets in order, and bounded: a log may repeat a line for ever."""

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
    channels: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    """Channels by direction and way, both as written: what they mean is read once, at the end."""
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
        """Take the text of a warning."""
        self.no_libibverbs |= text.startswith(_NO_LIBIBVERBS)
        if len(self.warnings) < _KEPT:
            self.warnings[text] = None

    def line(self, text: str) -> None:
        """Take the text of any other line."""
        take = _TAKERS.get(text[:4])
        if take is not None:
            take(self, text)

    def _version_or_setting(self, text: str) -> None:
        if match := _VERSION.match(text):
            self.versions[match[1]] = None
        elif match := _SETTING.match(text):
            self.settings[match[1]] = match[2]

    def _network(self, text: str) -> None:
        if match := _NETWORK.match(text):
            self.networks[match[1]] = None

    def _dma_buf(self, text: str) -> None:
        if text.startswith("DMA-BUF is available"):
            self.mechanisms["dma-buf"] = None

    def _multicast(self, text: str) -> None:
        self.nvls |= text.startswith("NVLS multicast support is available")

    def _connected(self, text: str) -> None:
        self.connected[text[len("Connected ") :].partition(",")[0].strip()] = None

    def _failed(self, text: str) -> None:
        self.no_libibverbs |= text.startswith(_NO_LIBIBVERBS)

    def _graph(self, text: str) -> None:
        if (match := _GRAPH.match(text)) and len(self.graphs) < _KEPT:
            numbers = int(match[1]), int(match[2]), float(match[3]), float(match[4])
            self.graphs[GraphSearch(*numbers, match[5], match[6])] = None

    def _plugin(self, text: str) -> None:
        if len(self.plugins) < _KEPT:
            self.plugins[text] = None

    def _net(self, text: str) -> None:
        if match := _HCA.match(text):
            if match["how"] is not None:
                self.mechanisms[_MECHANISMS.get(match["how"].lower(), match["how"])] = None
            # For sockets NCCL says the same of interfaces, where it means nothing.
            if not match["network"].endswith("Socket"):
                enabled = match["word"].lower() == "enabled"
                self.hca_gdr[match["name"]] = enabled and self.hca_gdr.get(match["name"], True)
        elif "No device found" in text:
            self.no_rdma_device = True
        elif match := _USING.match(text):
            for name in _NIC.findall(match[1]):
                self.nics[name] = None
        elif text.startswith(_NET_PLUGIN):
            self._plugin(text)

    def _distance(self, text: str) -> None:
        match = _DISTANCE.match(text)
        if match is not None and len(self.distances) < _KEPT_DISTANCES:
            said = GdrDistance(match[2], match[3], match[1] == "Enabled", int(match[4]), int(match[5]))
            self.distances[said] = None

    def _rank(self, text: str) -> None:
        match = _RANKS.search(text)
        if match is None:
            return
        total = int(match[2])
        # The widest communicator names the ranks; those split off it number theirs anew.
        if self.nranks is None or total > self.nranks:
            self.ranks = set()
            self.nranks = total
        if total == self.nranks:
            self.ranks.add(int(match[1]))
            if match[3] is not None:
                self.nodes = int(match[3])
            if match := _MNNVL.search(text):
                self.mnnvl = match[1] == "1"

    def _collnet(self, text: str) -> None:
        direction = b"receive" if "[receive]" in text else b"send"
        way = (direction, text.partition(" via ")[2].encode())
        self.channels[way] = self.channels.get(way, 0) + 1

    def _read_channels(self) -> dict[tuple[Direction, Transport], int]:
        found: dict[tuple[Direction, Transport], int] = {}
        for (direction, via), count in self.channels.items():
            way = parse(via.decode("utf-8", "replace"))
            if way is not None:
                key = (_DIRECTIONS[direction], way)
                found[key] = found.get(key, 0) + count
        return found

    def frozen(self) -> ProcessLog:
        """Return what was gathered as a value."""
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
            channels=self._read_channels(),
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


_TAKERS = {
    "NCCL": ProcessState._version_or_setting,
    "Usin": ProcessState._network,
    "NET/": ProcessState._net,
    "GPU ": ProcessState._distance,
    "comm": ProcessState._rank,
    "DMA-": ProcessState._dma_buf,
    "NVLS": ProcessState._multicast,
    "Conn": ProcessState._connected,
    "Fail": ProcessState._failed,
    "Patt": ProcessState._graph,
    "Coll": ProcessState._collnet,
    "P2P ": ProcessState._plugin,
    "TUNE": ProcessState._plugin,
    "Plug": ProcessState._plugin,
}
"""What takes a line, by its first four characters."""


class Algorithms:
    """The choices of algorithms seen, each once; a bounded number of them."""

    def __init__(self) -> None:
        self._seen: dict[Choice, None] = {}

    def line(self, text: str) -> None:
        """Take a line of the subsystem TUNING."""
        if (match := _CHOICE.match(text)) and len(self._seen) < _KEPT_CHOICES:
            self._seen[Choice(match[1], int(match[2]), match[3].upper(), match[4].upper())] = None

    def frozen(self) -> tuple[Choice, ...]:
        """Return them by collective and size."""
        return tuple(sorted(self._seen, key=lambda c: (c.collective, c.size_bytes, c.algorithm)))
