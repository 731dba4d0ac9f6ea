"""Parse nccl-tests' output; columns are found by the header.

Layouts from 2.0 to 2.19 differ (``error`` or ``#wrong``, redop and root or not, ``-I``, ``-S``, ``-C``), so columns
have no fixed position. The average bus bandwidth is computed from the rows that were checked, not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.text.foreign import lines, whole

# _HOST matches the prefix of a whole line. The second pattern matches a line inside other text and needs known host
# names: a name cannot be separated from the number before it if NCCL's line cut a row.
_HOST = re.compile(r"^(?:\[[^\]\n]*\] ?)*([^\s:<>\[\]]+):\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?NCCL ", re.MULTILINE)
_ENTRY = (
    r"(?:\[\d{4}-\d\d-\d\d [^\[\]\n]{0,64}\] )?(?:%s):\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?"
    r"NCCL (?:INFO|WARN) [^\n]*(?:\n|$)"
)

_RANK_LINE = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+(?P<pid>\d{1,9})\s+on\s+(?P<host>\S+)\s+device\s+(?P<device>.*)$"
)
_OUT_OF_BOUNDS = re.compile(r"#\s+Out of bounds values\s*:\s*(?P<count>\d{1,18})\s+(?P<word>\w+)")
# NCCL's log has a line per channel; collective_core's header has all pairs of ranks in one line.
_CHANNEL = "NCCL INFO Channel "
_TRANSPORT = "Transport:"
_VERSION = re.compile(r"(NCCL version \S+|#\s*nccl-tests version.*|#\s*Library .*|#\s*collective_core .*)")
_MOST = 1e18
"""Upper limit of times (us) and bandwidths (GB/s), so that their sums and ratios stay finite."""
_SHARING = re.compile(r"#\s*Ranks per GPU:\s*(?P<how>\S.{0,200})")
# Both times of a size, from the torch program, which reports one of them in the row.
_CALLS = re.compile(
    r"#\s*Calls of (?P<size>\d{1,18}) bytes: (?P<calls>\d{1,12}\.\d\d) us one by one, "
    r"(?P<graph>\d{1,12}\.\d\d) us in a CUDA graph\s*$"
)
# Columns before the two halves, in any layout of nccl-tests.
_LEADING = ("size", "count", "type", "redop", "root")
_TIMES = ("time", "cputime")
_WRONG = ("#wrong", "error")


@dataclass(frozen=True, slots=True)
class Half:
    """Hold one half of a row (out of place, or in place); None where the program printed N/A."""

    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong: int | None

    def taking(self, time_us: float) -> Half:
        """Return the half with another time, which is above 0, and its bandwidths; as it is if it has none."""
        if not self.time_us:
            return self
        faster = self.time_us / time_us
        algbw, busbw = (None if one is None else one * faster for one in (self.algbw_gbps, self.busbw_gbps))
        return Half(time_us, algbw, busbw, self.wrong)


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one message size of a sweep."""

    size_bytes: int
    count: int
    dtype: str | None
    redop: str | None
    root: int | None
    out_of_place: Half
    in_place: Half
    calls_us: float | None = None
    """The time of calls that were started one by one, if a CUDA graph of them was timed, too (``graph_us``)."""
    graph_us: float | None = None

    def started(self, *, in_graph: bool) -> Row:
        """Return the row with one of these two times, and the bandwidths that belong to it."""
        wanted = self.graph_us if in_graph else self.calls_us
        if wanted is None:
            return self
        halves = (self.out_of_place.taking(wanted), self.in_place.taking(wanted))
        return replace(self, out_of_place=halves[0], in_place=halves[1])


@dataclass(frozen=True, slots=True)
class Sweep:
    """Hold the parsed output of one run of a perf program."""

    rows: tuple[Row, ...]
    ranks: tuple[RankProof, ...]
    out_of_bounds: int | None
    libraries: tuple[str, ...]
    transports: tuple[str, ...]
    faults: tuple[Fault, ...]
    ranks_per_gpu: str | None = None
    """How ranks shared the GPUs, if they did."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Hold the columns of one header: names before the halves, names of each half, names after them."""

    leading: tuple[str, ...]
    halves: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def width(self) -> int:
        return len(self.leading) + sum(len(half) for half in self.halves)


def layout_of(line: str) -> Layout | None:
    """Parse a header line; None if the line is not a header of the table."""
    words = line.lstrip("#").split()
    if not line.lstrip().startswith("#") or words[:2] != ["size", "count"] or "busbw" not in words:
        return None
    starts = [index for index, word in enumerate(words) if word in _TIMES]
    if len(starts) != 2:
        return None
    first, second = starts
    length = second - first
    leading = tuple(words[:first])
    if any(word not in _LEADING for word in leading) or {words.count("algbw"), words.count("busbw")} != {2}:
        return None
    # Further columns may follow the second half (a timestamp); it has as many columns as the first half.
    return Layout(leading, (tuple(words[first:second]), tuple(words[second : second + length])))


def _transport(line: str) -> str | None:
    """Return the transport in a line; None without one."""
    _, channel, rest = line.partition(_CHANNEL)
    if channel:
        return rest.rpartition(" via ")[2].strip() or None if " via " in rest else None
    title = line.removeprefix("#").lstrip()
    if line.startswith("#") and title.startswith(_TRANSPORT):
        return title.removeprefix(_TRANSPORT).strip() or None
    return None


def _number(word: str) -> float | None:
    return None if word == "N/A" else float(word)


def _count(value: float) -> int:
    if not 0 <= value < 1 << 64:
        raise ValueError("not a valid count of elements")
    return int(value)


def _half(names: Sequence[str], words: Sequence[str]) -> Half:
    cells = dict(zip(names, words, strict=True))
    wrong_name = next((name for name in _WRONG if name in cells), None)
    wrong = _number(cells[wrong_name]) if wrong_name is not None else None
    if wrong_name == "error" and wrong is not None:
        # Before 2.11 the column held the largest deviation; only "Out of bounds values" reports wrong results.
        wrong = None
    time_name = next(name for name in _TIMES if name in cells)
    return Half(
        _number(cells[time_name]),
        _number(cells["algbw"]),
        _number(cells["busbw"]),
        None if wrong is None else _count(wrong),
    )


def row_of(layout: Layout, line: str) -> Row | None:
    """Parse one line as a row of the layout; None for other lines.

    A library's log may precede a row on the same line, so the row may start at any word.
    """
    words = line.split()
    for start in range(len(words) - layout.width + 1):
        cells = words[start : start + layout.width]
        if not (cells[0].isdecimal() and cells[1].isdecimal()):
            continue
        named = dict(zip(layout.leading, cells, strict=False))
        middle = len(layout.leading)
        cut = middle + len(layout.halves[0])
        try:
            root = named.get("root")
            return Row(
                whole(named["size"]),
                whole(named["count"]),
                named.get("type"),
                named.get("redop"),
                None if root is None else whole(root),
                _half(layout.halves[0], cells[middle:cut]),
                _half(layout.halves[1], cells[cut:]),
            )
        except ValueError:
            continue
    return None


def is_finite(row: Row) -> bool:
    """Tell whether all figures of a row are within the limits of times and bandwidths."""
    halves = (row.out_of_place, row.in_place)
    figures = [value for half in halves for value in (half.time_us, half.algbw_gbps, half.busbw_gbps)]
    return all(abs(value) <= _MOST for value in figures if value is not None)


def never_met(processes: int) -> Fault:
    """Return the fault of this many processes that each printed a table of their own."""
    return Fault(
        FaultKind.DUPLICATE_RANKS,
        f"{processes} processes each ran alone as rank 0 and did not connect to each other",
        hint="the program was built without MPI (or for another MPI): build it with MPI=1",
    )


def _judge(
    rows: Sequence[Row],
    endless: Sequence[Row],
    ranks: Sequence[RankProof],
    tables: int,
    out_of_bounds: int | None,
    verdict: str | None,
) -> tuple[Fault, ...]:
    faults = []
    zeros = sum(1 for rank in ranks if rank.rank == 0)
    if tables > 1 or zeros > 1:
        faults.append(never_met(max(tables, zeros)))
    if endless:
        # Compared with a baseline, such a figure would never be below it.
        message = f"the row of {endless[0].size_bytes} bytes has a figure that is not a finite number"
        faults.append(Fault(FaultKind.UNPARSABLE, message))
    elif not rows:
        faults.append(Fault(FaultKind.UNPARSABLE, "the output has no row of results"))
    if out_of_bounds is None:
        faults.append(
            Fault(
                FaultKind.CRASHED,
                "the output has no summary (Out of bounds values): the run crashed",
            )
        )
    wrong = sum((row.out_of_place.wrong or 0) + (row.in_place.wrong or 0) for row in rows)
    if wrong or out_of_bounds or verdict == "FAILED":
        sizes = [row.size_bytes for row in rows if row.out_of_place.wrong or row.in_place.wrong]
        at = f", first at {sizes[0]} bytes" if sizes else ""
        faults.append(Fault(FaultKind.WRONG_RESULTS, f"{wrong or out_of_bounds or 0} elements are wrong{at}"))
    return tuple(faults)


def _with_cut_rows(rows: list[Row], layout: Layout | None, text: str) -> list[Row]:
    """Return the rows in order of size, with those that NCCL's log had cut in two."""
    joined = without_log(text)
    if layout is None or joined is text:
        return rows
    cut = [row for line in lines(joined) if (row := row_of(layout, line)) is not None and row not in rows]
    return sorted([*rows, *cut], key=lambda row: row.size_bytes) if cut else rows


def _with_both(row: Row, times_us: tuple[float, float] | None) -> Row:
    """Return the row with the times of calls and of a graph; without them if one is 0, which no call takes.

    Also without them if the bandwidth of one of them exceeds the limit of bandwidths.
    """
    if times_us is None or not all(times_us):
        return row
    both = replace(row, calls_us=times_us[0], graph_us=times_us[1])
    return both if all(is_finite(both.started(in_graph=graph)) for graph in (True, False)) else row


def parse(text: str) -> Sweep:
    """Parse the output of a perf program, which may be mixed with other lines."""
    layout: Layout | None = None
    tables = 0
    rows: list[Row] = []
    ranks: list[RankProof] = []
    libraries: dict[str, None] = {}
    transports: dict[str, None] = {}
    out_of_bounds: int | None = None
    verdict: str | None = None
    ranks_per_gpu: str | None = None
    both: dict[int, tuple[float, float]] = {}
    for line in lines(text):
        if (found := layout_of(line)) is not None:
            layout, tables = found, tables + 1
        elif match := _RANK_LINE.search(line):
            ranks.append(
                RankProof(int(match["rank"]), match["host"], int(match["pid"]), match["device"].strip())
            )
        elif match := _OUT_OF_BOUNDS.search(line):
            out_of_bounds, verdict = int(match["count"]), match["word"]
        elif (transport := _transport(line)) is not None:
            transports[transport] = None
        elif match := _SHARING.match(line):
            ranks_per_gpu = match["how"].strip()
        elif match := _CALLS.match(line):
            both[int(match["size"])] = float(match["calls"]), float(match["graph"])
        elif match := _VERSION.search(line):
            libraries[match[0].lstrip("# ").strip()] = None
        elif layout is not None and (row := row_of(layout, line)) is not None:
            rows.append(row)
    found_rows = _with_cut_rows(rows, layout, text)
    rows = [_with_both(row, both.get(row.size_bytes)) for row in found_rows if is_finite(row)]
    endless = [row for row in found_rows if not is_finite(row)]
    return Sweep(
        tuple(rows),
        tuple(sorted(ranks, key=lambda rank: rank.rank)),
        out_of_bounds,
        tuple(libraries),
        tuple(transports),
        _judge(rows, endless, ranks, tables, out_of_bounds, verdict),
        ranks_per_gpu,
    )


def without_log(text: str) -> str:
    """Return an output without NCCL's lines; lines that NCCL's lines had cut in two are joined again.

    NCCL connects at the first use of an algorithm, so rank 0 may log between the halves of a row.
    """
    hosts = sorted(set(_HOST.findall(text)), key=len, reverse=True) if " NCCL " in text else []
    return re.sub(_ENTRY % "|".join(map(re.escape, hosts)), "", text) if hosts else text
