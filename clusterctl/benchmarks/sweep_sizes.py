"""Whether a table holds each message size that was asked for, once, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.collective import CollectiveSweep
from clusterctl.benchmarks.perf_output import Row

# Programs round a size down to whole elements, nccl-tests those of collectives with a part per rank to 16 bytes of each
# part (AllGatherGetCollByteCount and its like); the torch program raises a size below one element per rank to that.
_GRANULE_BYTES = 16
_WHOLE = ("all_reduce", "broadcast", "reduce", "sendrecv")
"""Collectives whose buffers are not split into a part per rank."""


def wanted_sizes(sweep: CollectiveSweep) -> tuple[int, ...]:
    """Return the message sizes of a sweep in bytes, as perf programs count them."""
    found, size = [], sweep.min_bytes
    while 0 < size <= sweep.max_bytes:
        found.append(size)
        if sweep.step_factor < 2:
            break
        size *= sweep.step_factor
    return tuple(found)


def check_sizes(sweep: CollectiveSweep, rows: Sequence[Row], np: int) -> tuple[Fault, ...]:
    """Return a fault for the first size that was not asked for, that comes twice, or that is missing."""
    granule = _GRANULE_BYTES * (1 if sweep.name in _WHOLE else np)
    wanted = wanted_sizes(sweep)

    def answers(found: int, size: int) -> bool:
        return size - granule < found <= max(size, granule if size < granule else 0)

    found = Counter(row.size_bytes for row in rows)
    strange = [size for size in found if not any(answers(size, asked) for asked in wanted)]
    twice = [size for size, count in found.items() if count > 1 and size >= granule]
    missing = [asked for asked in wanted if not any(answers(size, asked) for size in found)]
    if strange:
        return (_fault(f"the table holds a row of {strange[0]} bytes, which was not asked for"),)
    if twice:
        return (_fault(f"the table holds {found[twice[0]]} rows of {twice[0]} bytes, instead of one"),)
    if missing:
        return (
            _fault(
                f"the table holds no row of {missing[0]} bytes ({len(wanted) - len(missing)} of {len(wanted)} sizes)",
                "nccl-tests leaves out sizes that do not fit into GPU memory: lower --max-bytes",
            ),
        )
    return ()


def _fault(message: str, hint: str = "rank-0.log in the run folder has the table as it was printed") -> Fault:
    return Fault(FaultKind.UNPARSABLE, message, rank=0, hint=hint)
