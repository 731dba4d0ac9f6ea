"""Parse NCCL's log (NCCL_DEBUG=INFO) as a stream, fast enough for the logs of large runs.

One compiled pattern turns a block of lines into tuples, and equal tuples are counted before they are parsed: thousands
of channel lines become a few. Memory grows with the number of processes, not of lines.

Formats were read in the sources of NCCL 2.18 to 2.28: src/debug.cc (the prefix, with a timestamp since 2.26),
src/transport/{net,p2p,shm,coll_net}.cc (``via``), src/graph/{topo,paths,search}.cc (GPUDirect, graphs),
src/init.cc, src/plugin/net.cc and src/enqueue.cc (``Algo``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from clusterctl.trust.nccl_lines import change_of
from clusterctl.trust.nccl_log_model import Algorithms, NcclLog, ProcessState

# Small enough that the tuples of a block stay in a core's cache.
_BLOCK_BYTES = 256 << 10
# NCCL does not write longer lines: its buffer holds 1024 bytes.
_LINE_BYTES = 1 << 16
# The prefix (host, process, thread, and text of other programs before them) is one group, followed by a channel's
# direction and transport, the text of a relevant line, or a warning. The pattern is fast because it has few groups, no
# repeated or optional ones for common lines, alternatives that fail at their first character, and a newline at its
# start, which the search finds by a plain scan.
_LINE = re.compile(
    rb"\n([^\n\[]+|(?:\[[^\]\n]*\])+[^\n\[]*)\[-?\d+\] (?:NCCL |[^ \n]+:\d+ NCCL )(?:INFO "
    rb"(?:Channel (?:\d+/\d+|\d+) : \d+\[[^\]\n]*\] -> \d+\[[^\]\n]*\] ((?:via|\[(?:send|receive)\] via) [^\n]+)"
    rb"|((?:All|Reduce|Broad|Send|Recv|Scatter|Gather)\w*: \d+ Bytes -> Algo \w+ proto \w+"
    rb"|(?:NCCL version|NCCL_\w+ set|Using network|NET/|P2P plugin|GPU Direct|DMA-BUF|NVLS multicast"
    rb"|Connected|comm 0x|Pattern|CollNet |TUNER/|Failed to|Plugin)[^\n]*))"
    rb"|WARN ([^\n]*))"
)
# Each word is tried only from its start: a search from each of its characters would be quadratic.
_ORIGIN = re.compile(rb"(?<![^\s:>\]])([^\s:>\]]+):(\d{1,9}):\d{1,9} $")
# Prefixes with timestamps all differ, so the cache of prefixes must be bounded.
_REMEMBERED = 8192
_NONE: dict[bytes, int] = {}


class LogReader:
    """Read the output of one or many ranks, piece by piece, and return what NCCL did."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int | None, str, int], ProcessState] = {}
        self._algorithms = Algorithms()
        self._origins: dict[bytes, ProcessState | None] = {}

    def read(self, pieces: Iterable[bytes], source: int | None = None) -> None:
        """Read one stream of bytes; pieces may end anywhere in a line.

        ``source`` is the rank that wrote the output, None if many ranks did.
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
        """Read one output that is already in memory."""
        data = text.encode("utf-8", "replace")
        self.read((data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES)), source)

    def result(self) -> NcclLog:
        """Return the log as read so far."""
        processes = sorted(
            (state.frozen() for state in self._processes.values()),
            key=lambda p: (p.ranks[:1] or (1 << 31,), p.host, p.pid),
        )
        return NcclLog(tuple(processes), self._algorithms.frozen())

    def _block(self, block: bytes, source: int | None) -> None:
        origins = self._origins
        # Consecutive lines often come from the same process, which is then looked up only once.
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
        """Return the process in a line's prefix; None for incomplete lines and lines of other programs."""
        match = _ORIGIN.search(prefix)
        state = None
        if match is not None:
            name = (source, match[1].decode("utf-8", "replace"), int(match[2]))
            state = self._processes.setdefault(name, ProcessState(*name))
        if len(self._origins) >= _REMEMBERED:
            self._origins.clear()
        self._origins[prefix] = state
        return state
