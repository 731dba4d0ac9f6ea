"""A sweep of one collective: the names of nccl-tests' programs and the command of one rank."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.perf_output import Sweep

COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
    *("alltoall", "gather", "scatter", "sendrecv", "hypercube"),
)
"""As nccl-tests names them."""


def program_of(collective: str) -> str:
    """Return the name of the perf program, nccl-tests' and collective_core's alike."""
    return f"{collective}_perf"


def sibling(all_reduce_perf: str, program: str) -> str:
    """Return the program beside the all_reduce_perf that the inventory names (empty: none is named)."""
    if all_reduce_perf and program == program_of("all_reduce"):
        return all_reduce_perf
    folder, slash, name = all_reduce_perf.rpartition("/")
    # Builds with MPI are installed as all_reduce_perf_mpi by some packages.
    suffix = name.removeprefix(program_of("all_reduce"))
    return f"{folder}{slash}{program}{suffix if suffix != name else ''}"


@dataclass(frozen=True, slots=True)
class CollectiveSweep:
    """One sweep: sizes in bytes, the factor between them, and how often each is timed."""

    name: str = "all_reduce"
    min_bytes: int = 8
    max_bytes: int = 128 << 20
    step_factor: int = 2
    iters: int = 20
    warmup_iters: int = 5
    check: bool = True
    extra: tuple[str, ...] = ()

    def argv(self, program: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command of one rank with one device: nccl-tests' flags after ``program``."""
        return (
            *program,
            "-b", str(self.min_bytes),
            "-e", str(self.max_bytes),
            "-f", str(self.step_factor),
            "-n", str(self.iters),
            "-w", str(self.warmup_iters),
            "-c", "1" if self.check else "0",
            "-g", "1",
            *self.extra,
        )  # fmt: skip

    def parse(self, text: str) -> Sweep:
        """Return what this output says, with every fault found in it."""
        return perf_output.parse(text)
