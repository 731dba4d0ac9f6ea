"""Facts of MPI on the node, and of what nccl-tests is built with."""

from __future__ import annotations

from dataclasses import dataclass

from clusterctl.facts.base import Part


@dataclass(frozen=True, slots=True)
class MpiInstallation(Part):
    """One MPI: its prefix, and the paths of its mpirun and its header mpi.h, None if they are missing."""

    home: str
    mpirun: str | None = None
    header: str | None = None


@dataclass(frozen=True, slots=True)
class Mpi(Part):
    """All installations of Open MPI in the usual places, MPICH's launcher, and what nccl-tests is built with."""

    installations: tuple[MpiInstallation, ...] = ()
    nvcc: str | None = None
    """CUDA's compiler below /usr/local."""
    nccl_header: str | None = None
    """NCCL's header nccl.h."""
    nccl_tests: str | None = None
    """The all_reduce_perf that the requirement ``mpi`` builds."""
    hydra: str | None = None
    """MPICH's launcher, in the places in which a launch looks for it."""
    named: str | None = None
    """The mpirun that the inventory names, if the node has it."""
    mpich: MpiInstallation | None = None
    """The MPICH that the requirement ``mpi`` puts into the directory of its trees; its mpirun is mpiexec.hydra."""
