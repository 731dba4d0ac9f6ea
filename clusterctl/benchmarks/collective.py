"""Define a sweep of one collective: the names of nccl-tests' programs and the command of one rank."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.perf_output import Sweep

COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
    *("alltoall", "gather", "scatter", "sendrecv", "hypercube"),
)
"""The collectives, under the names of nccl-tests."""


REDUCING = ("all_reduce", "reduce_scatter", "reduce")
"""The collectives that combine elements by an operator."""
DATATYPES = (
    *("float", "double", "half", "bfloat16", "int8", "uint8", "int32", "int64"),
    *("uint32", "uint64", "f8e4m3", "f8e5m2"),
)
"""The types of elements, under the names of nccl-tests."""
OPERATORS = ("sum", "prod", "max", "min", "avg")
IN_EVERY_PROGRAM = {"datatype": DATATYPES[:8], "op": OPERATORS[:4]}
"""What torch measures too; ``all`` means these."""


def program_of(collective: str) -> str:
    """Return the name of the perf program, which nccl-tests and collective_core share."""
    return f"{collective}_perf"


def sibling(all_reduce_perf: str, program: str) -> str:
    """Return the program in the directory of the inventory's all_reduce_perf; an empty path stays empty."""
    if all_reduce_perf and program == program_of("all_reduce"):
        return all_reduce_perf
    folder, slash, name = all_reduce_perf.rpartition("/")
    # Some packages install builds with MPI as all_reduce_perf_mpi.
    suffix = name.removeprefix(program_of("all_reduce"))
    return f"{folder}{slash}{program}{suffix if suffix != name else ''}"


@dataclass(frozen=True, slots=True)
class CollectiveSweep:
    """Hold one sweep: sizes in bytes, the factor between them, and the iterations per size."""

    name: str = "all_reduce"
    min_bytes: int = 8
    max_bytes: int = 128 << 20
    step_factor: int = 2
    iters: int = 20
    warmup_iters: int = 5
    check: bool = True
    datatype: str = "float"
    op: str = "sum"
    gpus: int = 1
    """GPUs of each process, each of them a rank of the library."""
    extra: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the name, with the type and the operator if they are not the usual ones."""
        words = [self.datatype] if (self.datatype, self.op) != ("float", "sum") else []
        words += [self.op] if words and self.name in REDUCING else []
        return f"{self.name} of {', '.join(words)}" if words else self.name

    def argv(self, program: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command of one process: nccl-tests' flags after ``program``."""
        return (
            *program,
            "-b", str(self.min_bytes),
            "-e", str(self.max_bytes),
            "-f", str(self.step_factor),
            "-n", str(self.iters),
            "-w", str(self.warmup_iters),
            "-c", "1" if self.check else "0",
            "-g", str(self.gpus),
            *(("-d", self.datatype) if self.datatype != "float" else ()),
            *(("-o", self.op) if self.op != "sum" else ()),
            *self.extra,
        )  # fmt: skip

    def parse(self, text: str) -> Sweep:
        """Parse the output of one run; faults found in it are part of the result."""
        return perf_output.parse(text)
