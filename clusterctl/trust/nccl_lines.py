"""Parse a line of NCCL's log into a change of its process's state; equal lines are parsed only once."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from clusterctl.documents.evidence import GraphSearch
from clusterctl.trust.nccl_log_model import KEPT, NO_LIBIBVERBS, GdrDistance, ProcessState

_VERSION = re.compile(r"NCCL version (\S+)")
_SETTING = re.compile(r"(NCCL_\w+) set (?:by environment )?to (.*?)\.?$")
_NETWORK = "Using network "
_USING = re.compile(r"NET/[^:]*: Using (.*)$")
_NIC = re.compile(r"\[\d+\]\s*(\S+)")
_HCA = re.compile(
    r"NET/(?P<network>[^:]*?) ?: GPU Direct RDMA (?:\((?P<how>[\w-]+)\) )?(?P<word>Enabled|Disabled|enabled)"
    r" for HCA \d+ '(?P<name>[^' ]+)"
)
_DISTANCE = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU (\S+) / HCA (\S+) \(distance (\d{1,9}) (?:>|<|<=|>=) (\d{1,9})\)"
)
_RANKS = re.compile(r"rank (\d{1,9}) n[rR]anks (\d{1,9})(?: nNodes (\d{1,9}))?(?!\d)")
_MNNVL = re.compile(r" MNNVL ([01])")
_GRAPH = re.compile(
    r"Pattern (\d{1,9}), crossNic \d+, nChannels (\d{1,9}), "
    r"(?:bw|speed) (\d{1,9}(?:\.\d{1,9})?)/(\d{1,9}(?:\.\d{1,9})?), type (\w+)/(\w+)"
)
_MECHANISMS = {"dmabuf": "dma-buf", "nvidia-peermem": "nvidia-peermem"}
_NET_PLUGIN = ("NET/Plugin", "NET/OFI ")
_KEPT_DISTANCES = 1024
# The size of NCCL's buffer for a line (src/debug.cc); longer lines are not cached.
_LINE_BYTES = 1024

Change = Callable[[ProcessState], None]
"""Applies a line to the state of the process that wrote it."""


def _version_or_setting(text: str) -> Change | None:
    if match := _VERSION.match(text):
        version = match[1]
        return lambda state: state.versions.update({version: None})
    if match := _SETTING.match(text):
        name, value = match[1], match[2]
        return lambda state: state.settings.update({name: value})
    return None


def _network(text: str) -> Change | None:
    name = text.removeprefix(_NETWORK).strip()
    if text.startswith(_NETWORK) and name:
        return lambda state: state.networks.update({name: None})
    return None


def _dma_buf(text: str) -> Change | None:
    if not text.startswith("DMA-BUF is available"):
        return None
    return lambda state: state.mechanisms.update({"dma-buf": None})


def _multicast(text: str) -> Change | None:
    def change(state: ProcessState) -> None:
        state.nvls = True

    return change if text.startswith("NVLS multicast support is available") else None


def _connected(text: str) -> Change:
    what = text[len("Connected ") :].partition(",")[0].strip()
    return lambda state: state.connected.update({what: None})


def _failed(text: str) -> Change | None:
    def change(state: ProcessState) -> None:
        state.no_libibverbs = True

    return change if text.startswith(NO_LIBIBVERBS) else None


def _graph(text: str) -> Change | None:
    match = _GRAPH.match(text)
    if match is None:
        return None
    numbers = int(match[1]), int(match[2]), float(match[3]), float(match[4])
    search = GraphSearch(*numbers, match[5], match[6])

    def change(state: ProcessState) -> None:
        if len(state.graphs) < KEPT:
            state.graphs[search] = None

    return change


def _plugin(text: str) -> Change:
    def change(state: ProcessState) -> None:
        if len(state.plugins) < KEPT:
            state.plugins[text] = None

    return change


def _net(text: str) -> Change | None:
    if match := _HCA.match(text):
        return _hca(match["network"], match["how"], match["name"], match["word"].lower() == "enabled")
    if "No device found" in text:
        return _no_device
    if match := _USING.match(text):
        names = dict.fromkeys(_NIC.findall(match[1]))
        return lambda state: state.nics.update(names)
    return _plugin(text) if text.startswith(_NET_PLUGIN) else None


def _no_device(state: ProcessState) -> None:
    state.no_rdma_device = True


def _hca(network: str, how: str | None, name: str, enabled: bool) -> Change:
    mechanism = None if how is None else _MECHANISMS.get(how.lower(), how)
    # For sockets NCCL logs the same about interfaces, where it has no meaning.
    counts = not network.endswith("Socket")

    def change(state: ProcessState) -> None:
        if mechanism is not None:
            state.mechanisms[mechanism] = None
        if counts:
            state.hca_gdr[name] = enabled and state.hca_gdr.get(name, True)

    return change


def _distance(text: str) -> Change | None:
    match = _DISTANCE.match(text)
    if match is None:
        return None
    said = GdrDistance(match[2], match[3], match[1] == "Enabled", int(match[4]), int(match[5]))

    def change(state: ProcessState) -> None:
        if len(state.distances) < _KEPT_DISTANCES:
            state.distances[said] = None

    return change


def _rank(text: str) -> Change | None:
    match = _RANKS.search(text)
    if match is None:
        return None
    rank, total, nodes = int(match[1]), int(match[2]), match[3]
    mnnvl = _MNNVL.search(text)

    def change(state: ProcessState) -> None:
        # The widest communicator has the launch's rank numbers; communicators split from it renumber their ranks.
        if state.nranks is None or total > state.nranks:
            state.ranks = set()
            state.nranks = total
        if total == state.nranks:
            state.ranks.add(rank)
            if nodes is not None:
                state.nodes = int(nodes)
            if mnnvl is not None:
                state.mnnvl = mnnvl[1] == "1"

    return change


def _collnet(text: str) -> Change:
    direction = "[receive] " if "[receive]" in text else "[send] "
    way = f"{direction}via {text.partition(' via ')[2]}".encode()

    def change(state: ProcessState) -> None:
        state.channels[way] = state.channels.get(way, 0) + 1

    return change


_READERS: dict[bytes, Callable[[str], Change | None]] = {
    b"NCCL": _version_or_setting,
    b"Usin": _network,
    b"NET/": _net,
    b"GPU ": _distance,
    b"comm": _rank,
    b"DMA-": _dma_buf,
    b"NVLS": _multicast,
    b"Conn": _connected,
    b"Fail": _failed,
    b"Patt": _graph,
    b"Coll": _collnet,
    b"P2P ": _plugin,
    b"TUNE": _plugin,
    b"Plug": _plugin,
}
"""The parser of a line, by the line's first four characters."""


def change_of(text: bytes) -> Change | None:
    """Return the change that a line's text makes; None for a line without relevant content."""
    return _remembered(text) if len(text) <= _LINE_BYTES else _read(text)


def _read(text: bytes) -> Change | None:
    reader = _READERS.get(text[:4])
    return None if reader is None else reader(text.decode("utf-8", "replace"))


_remembered = lru_cache(maxsize=4096)(_read)
