"""The streaming parser of NCCL's log (NCCL_DEBUG=INFO), fast enough for the logs of large runs.

One compiled pattern reads a block of lines at a time and returns tuples, equal tuples are counted before any of
them is looked at: thousands of channel lines become a few. Memory follows the number of processes, not of lines.

Formats were read in the sources of NCCL 2.18 to 2.28: src/debug.cc (the prefix, with a timestamp since 2.26),
src/transport/{net,p2p,shm,coll_net}.cc (``via``), src/graph/{topo,paths,search}.cc (GPUDirect, graphs),
src/init.cc, src/plugin/net.cc and src/enqueue.cc (``Algo``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from clusterctl.benchmarks.nccl_lines import change_of
from clusterctl.benchmarks.nccl_log_model import NcclLog
from clusterctl.benchmarks.nccl_process import Algorithms, ProcessState

# Small enough for what a block becomes to stay in a core's cache.
_BLOCK_BYTES = 256 << 10
# A line longer than this is none of NCCL's, whose buffer holds 1024 bytes.
_LINE_BYTES = 1 << 16
# Everything up to the text is one group (host, process, thread, and what other programs put before them), then
# come a channel's direction and way, or the text of a line worth reading, or a warning. Few groups, none of them
# repeated or optional on the way of a common line, and alternatives that fail at their first character are what makes
# it fast; so does the newline that it starts with, which the search finds by a plain scan.
_LINE = re.compile(
    rb"\n([^\n\[]+|(?:\[[^\]\n]*\])+[^\n\[]*)\[-?\d+\] (?:NCCL |[^ \n]+:\d+ NCCL )(?:INFO "
    rb"(?:Channel (?:\d+/\d+|\d+) : \d+\[[^\]\n]*\] -> \d+\[[^\]\n]*\] ((?:via|\[(?:send|receive)\] via) [^\n]+)"
    rb"|((?:All|Reduce|Broad|Send|Recv|Scatter|Gather)\w*: \d+ Bytes -> Algo \w+ proto \w+"
    rb"|(?:NCCL version|NCCL_\w+ set|Using network|NET/|P2P plugin|GPU Direct|DMA-BUF|NVLS multicast"
    rb"|Connected|comm 0x|Pattern|CollNet |TUNER/|Failed to|Plugin)[^\n]*))"
    rb"|WARN ([^\n]*))"
)
# Each word is tried from its begin alone: a search from each of its characters would be quadratic.
_ORIGIN = re.compile(rb"(?<![^\s:>\]])([^\s:>\]]+):(\d{1,9}):\d{1,9} $")
# Prefixes with timestamps are all different; what is remembered of them must not grow with the log.
_REMEMBERED = 8192
_NONE: dict[bytes, int] = {}
# What stands at the begin of a whole line, and the same line inside other text once its host's name is known: a
# name cannot be told from the number before it where a row was cut.
_HOST = re.compile(r"^(?:\[[^\]\n]*\] ?)*([^\s:<>\[\]]+):\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?NCCL ", re.MULTILINE)
_ENTRY = (
    r"(?:\[\d{4}-\d\d-\d\d [^\[\]\n]{0,64}\] )?(?:%s):\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?"
    r"NCCL (?:INFO|WARN) [^\n]*(?:\n|$)"
)


class LogReader:
    """Takes the output of one or many ranks, piece by piece, and says what NCCL did."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int | None, str, int], ProcessState] = {}
        self._algorithms = Algorithms()
        self._origins: dict[bytes, ProcessState | None] = {}

    def read(self, pieces: Iterable[bytes], source: int | None = None) -> None:
        """Read one stream of bytes; lines may be cut anywhere between pieces.

        ``source`` is the rank whose output it is, None when it is of many.
        """
        self._origins.clear()
        left = b"\n"
        for piece in pieces:
            cut = piece.rfind(b"\n")
            if cut < 0 and len(left) < _LINE_BYTES:
                left += piece
                continue
            self._block(left + piece[:cut] if cut >= 0 else left, source)
            left = b"\n" + piece[cut + 1 :]
        self._block(left, source)

    def read_text(self, text: str, source: int | None = None) -> None:
        """Read one output that is in memory already."""
        data = text.encode("utf-8", "replace")
        self.read((data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES)), source)

    def result(self) -> NcclLog:
        """Return what was read so far."""
        processes = sorted(
            (state.frozen() for state in self._processes.values()),
            key=lambda p: (p.ranks[:1] or (1 << 31,), p.host, p.pid),
        )
        return NcclLog(tuple(processes), self._algorithms.frozen())

    def _block(self, block: bytes, source: int | None) -> None:
        origins = self._origins
        # What a process writes often comes in a row: it is looked up once.
        last, process, channels = None, None, _NONE
        for (prefix, way, text, warning), count in Counter(_LINE.findall(block)).items():
            if prefix != last:
                last = prefix
                process = origins[prefix] if prefix in origins else self._origin(prefix, source)
                channels = _NONE if process is None else process.channels
            if process is None:
                continue
            if way:
                channels[way] = channels.get(way, 0) + count
            elif warning:
                process.warning(warning.decode("utf-8", "replace"))
            elif b" Bytes -> Algo " in text:
                self._algorithms.line(text)
            elif (change := change_of(text)) is not None:
                change(process)

    def _origin(self, prefix: bytes, source: int | None) -> ProcessState | None:
        """Return the process that a line's prefix names; None for lines that are cut or are not NCCL's."""
        match = _ORIGIN.search(prefix)
        state = None
        if match is not None:
            name = (source, match[1].decode("utf-8", "replace"), int(match[2]))
            state = self._processes.setdefault(name, ProcessState(*name))
        if len(self._origins) >= _REMEMBERED:
            self._origins.clear()
        self._origins[prefix] = state
        return state


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while piece := stream.read(_BLOCK_BYTES):
            yield piece


def parse_file(path: Path) -> NcclLog:
    """Read a log on the disk without holding it in memory; OSError as from ``open``."""
    reader = LogReader()
    reader.read(_pieces(path))
    return reader.result()


def without_log(text: str) -> str:
    """Return an output without NCCL's lines, and the lines that they had cut in two whole again.

    NCCL connects when an algorithm is first used, so that rank 0 logs between the halves of a row.
    """
    hosts = sorted(set(_HOST.findall(text)), key=len, reverse=True) if " NCCL " in text else []
    return re.sub(_ENTRY % "|".join(map(re.escape, hosts)), "", text) if hosts else text
