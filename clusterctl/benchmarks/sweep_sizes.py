"""Check that a table has each requested message size exactly once, and no other size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.collective import CollectiveSweep
from clusterctl.benchmarks.perf_output import Row

# Programs round a size down to whole elements. For collectives with a part per rank, nccl-tests rounds each part to 16
# bytes (AllGatherGetCollByteCount etc.); the torch program raises a size below one element per rank to one element.
_GRANULE_BYTES = 16
_WHOLE = ("all_reduce", "broadcast", "reduce", "sendrecv")
"""Collectives whose buffers are not split into a part per rank."""


def wanted_sizes(sweep: CollectiveSweep) -> tuple[int, ...]:
    """Return the message sizes of a sweep in bytes, computed as in perf programs."""
    found, size = [], sweep.min_bytes
    while 0 < size <= sweep.max_bytes:
        found.append(size)
        if sweep.step_factor < 2:
            break
        size *= sweep.step_factor
    return tuple(found)


def missed_end(sweep: CollectiveSweep) -> str | None:
    """Return a note if the sizes of a sweep end before its largest size; None if they reach it."""
    last, factor = wanted_sizes(sweep)[-1], sweep.step_factor
    if last == sweep.max_bytes:
        return None
    first = _first_that_reaches(sweep)
    better = [f"-b {size_word(first)}"] if first < sweep.max_bytes else []
    better += ["-f 2"] if factor != 2 and _is_reached(sweep, 2) else []
    advice = f"; add {' or '.join(better)} to reach it" if better else ""
    return (
        f"the largest size is {size_word(last)}, because factor {factor} from {size_word(sweep.min_bytes)} "
        f"does not reach -e {size_word(sweep.max_bytes)}{advice}"
    )


def reaching_end(sweep: CollectiveSweep) -> CollectiveSweep:
    """Return the sweep from the first size between its smallest and the next one that reaches its largest, if any."""
    first = _first_that_reaches(sweep)
    return replace(sweep, min_bytes=first) if first < sweep.min_bytes * sweep.step_factor else sweep


def _first_that_reaches(sweep: CollectiveSweep) -> int:
    first, factor = sweep.max_bytes, sweep.step_factor
    while factor > 1 and first % factor == 0 and first // factor >= sweep.min_bytes:
        first //= factor
    return first


def _is_reached(sweep: CollectiveSweep, factor: int) -> bool:
    return wanted_sizes(replace(sweep, step_factor=factor))[-1] == sweep.max_bytes


def size_word(size_bytes: int) -> str:
    """Return a size as options take it: 8, 64K, 1M."""
    for unit, word in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size_bytes >= unit and size_bytes % unit == 0:
            return f"{size_bytes // unit}{word}"
    return str(size_bytes)


def check_sizes(sweep: CollectiveSweep, rows: Sequence[Row], np: int) -> tuple[Fault, ...]:
    """Return a fault for the first row of another type or operator, or the first wrong, repeated or missing size."""
    other = next((row for row in rows if _differs(sweep, row)), None)
    if other is not None:
        return (
            _fault(
                f"the table has a row of {other.dtype} and {other.redop}, but {sweep.datatype} and {sweep.op} "
                "were requested"
            ),
        )
    granule = _GRANULE_BYTES * (1 if sweep.name in _WHOLE else np)
    wanted = wanted_sizes(sweep)

    def answers(found: int, size: int) -> bool:
        return size - granule < found <= max(size, granule)

    found = Counter(row.size_bytes for row in rows)
    strange = [size for size in found if not any(answers(size, asked) for asked in wanted)]
    twice = [size for size, count in found.items() if count > 1 and size >= granule]
    missing = [asked for asked in wanted if not any(answers(size, asked) for size in found)]
    if strange:
        return (_fault(f"the table has a row of {strange[0]} bytes, which was not requested"),)
    if twice:
        return (_fault(f"the table has {found[twice[0]]} rows of {twice[0]} bytes instead of one"),)
    if missing:
        return (
            _fault(
                f"the table has no row of {missing[0]} bytes ({len(wanted) - len(missing)} of {len(wanted)} sizes)",
                "nccl-tests skips sizes that do not fit into GPU memory: lower --max-bytes",
            ),
        )
    return ()


def _differs(sweep: CollectiveSweep, row: Row) -> bool:
    """Tell whether a row has another type or operator than the requested one; the defaults are not requested."""
    datatype = sweep.datatype != "float" and row.dtype not in (None, sweep.datatype)
    return datatype or (sweep.op != "sum" and row.redop not in (None, sweep.op))


def _fault(message: str, hint: str = "see the printed table in rank-0.log in the run folder") -> Fault:
    return Fault(FaultKind.UNPARSABLE, message, rank=0, hint=hint)
