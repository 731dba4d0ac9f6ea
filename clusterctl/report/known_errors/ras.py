"""The state of the ranks in the JSON of NCCL's RAS (``ncclras -f json``), as lines that the catalogue knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

BEGINNING = b'"nccl_version"'
"""The first key of the document."""
MOST_BYTES = 64 << 20
"""A rank takes about 700 bytes: 64 MiB are 90,000 ranks."""
_LINES_OF_A_KIND = 200
_MOST_OPERATIONS = 64
_FINE = (0, 7)
"""ncclSuccess and ncclInProgress."""


class _State(BaseModel):
    init_state: int = 0
    async_error: int = 0


class _Missing(BaseModel):
    considered_dead: bool = False


class _Place(BaseModel):
    rank: int = Field(ge=0, lt=10_000_000)
    host: str = Field(default="unknown", max_length=255, pattern=r"^[^\s,()]+$")
    pid: int = -1
    cuda_dev: int = -1

    def __str__(self) -> str:
        return f"({self.host}, process {self.pid}, GPU {self.cuda_dev})"


class _Rank(_Place):
    status: _State = _State()
    collective_counts: Annotated[dict[str, int], Field(max_length=_MOST_OPERATIONS)] = {}


class _MissingRank(_Place):
    status: _Missing = _Missing()


class _Communicator(BaseModel):
    hash: str = Field(pattern=r"^0x[0-9a-fA-F]{1,16}$")
    ranks: tuple[_Rank, ...] = ()
    missing_ranks: tuple[_MissingRank, ...] = ()


class _Report(BaseModel):
    nccl_version: str
    communicators: tuple[_Communicator, ...]


def lines_of(document: bytes) -> list[str] | None:
    """Return one line for each rank that is dead, silent, failed, behind or ahead; None for another document."""
    try:
        report = _Report.model_validate_json(document)
    except ValidationError:
        return None
    return [line for one in report.communicators for line in _of(one)]


def _of(one: _Communicator) -> Iterator[str]:
    name = f"communicator {one.hash}:"
    for missing in one.missing_ranks[:_LINES_OF_A_KIND]:
        kind = "dead" if missing.status.considered_dead else "unresponsive"
        yield f"RAS: {kind}: {name} rank {missing.rank} {missing}"
    failed = [rank for rank in one.ranks if _code(rank) not in _FINE]
    for rank in failed[:_LINES_OF_A_KIND]:
        yield f"RAS: error: {name} rank {rank.rank} reported code {_code(rank)} {rank}"
    for operation in sorted({key for rank in one.ranks for key in rank.collective_counts})[:_MOST_OPERATIONS]:
        counts = {rank.rank: rank.collective_counts.get(operation, 0) for rank in one.ranks}
        usual = Counter(counts.values()).most_common(1)[0][0]
        apart = [rank for rank in one.ranks if counts[rank.rank] != usual]
        for rank in apart[:_LINES_OF_A_KIND]:
            kind = "behind" if counts[rank.rank] < usual else "ahead"
            yield (
                f"RAS: {kind}: {name} rank {rank.rank} called {operation[:24]} {counts[rank.rank]} times, "
                f"most ranks {usual} times {rank}"
            )


def _code(rank: _Rank) -> int:
    return rank.status.init_state if rank.status.init_state not in _FINE else rank.status.async_error
