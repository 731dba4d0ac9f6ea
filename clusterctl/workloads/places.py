"""Find this process's rank from the launcher's variables; without torch, which a node may lack."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

# Each launcher's variables: rank, world size, local rank, local size. Plain RANK comes last, because a user's shell may
# have a stale one. torchrun, detected by TORCHELASTIC_RUN_ID, comes first, because another launcher often starts its
# agents.
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_LAUNCHERS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "openmpi",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ("environment", *_TORCHRUN),
)


class RankError(Exception):
    """Report why this process cannot run as a rank."""


@dataclass(frozen=True)
class Place:
    """Hold this process's rank and the world size, globally and within its node."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    local_size: int

    @property
    def host(self) -> str:
        return socket.gethostname()


def read_place(environ: Mapping[str, str]) -> Place:
    """Return this process's place (rank 0 of 1 without a launcher); raise RankError for invalid variables."""
    inner = [("torchrun", *_TORCHRUN)] if "TORCHELASTIC_RUN_ID" in environ else []
    for launcher, rank_name, size_name, local_name, local_size_name in (*inner, *_LAUNCHERS):
        if rank_name not in environ or size_name not in environ:
            continue
        try:
            rank, size = int(environ[rank_name]), int(environ[size_name])
            local = int(environ.get(local_name, rank))
            local_size = int(environ.get(local_size_name) or _slurm_local_size(environ) or local + 1)
        except ValueError as error:
            raise RankError(f"{launcher} gave a rank that is not a number: {error}") from None
        if not 0 <= rank < size:
            raise RankError(f"{launcher} gave rank {rank} of {size}")
        # Open MPI 5.0 sets the local size of the first node on every node.
        return Place(launcher, rank, size, local, max(local + 1, local_size))
    return Place("none", 0, 1, 0, 1)


def _slurm_local_size(environ: Mapping[str, str]) -> int | None:
    """Return the tasks on this node, which Slurm lists for all nodes of a step: ``2(x3),1``; None if unset."""
    counts: list[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        count, _, times = part.rstrip(")").partition("(x")
        if not count:
            return None
        counts += [int(count)] * int(times or 1)
    node = int(environ.get("SLURM_NODEID", "0"))
    return counts[node] if node < len(counts) else None
