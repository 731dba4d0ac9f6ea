"""Assume what nodes have from the inventory alone, for commands that are printed without contacting a node."""

from __future__ import annotations

from clusterctl.artifacts.ranks import slots_of
from clusterctl.benchmarks.collective import sibling
from clusterctl.inventory.model import Node
from clusterctl.launch.launchers.mpi_version import Family
from clusterctl.launch.preflight import Readiness

_VERSIONS: dict[Family, str] = {
    "openmpi": "mpirun (Open MPI) {major}.0.0",
    "mpich": "HYDRA build details: Version: {major}.0",
}


def assumed(
    node: Node,
    *,
    slots: int | None = None,
    program: str = "all_reduce_perf",
    mpi: tuple[Family, int] = ("openmpi", 4),
) -> Readiness:
    """Return what a node has if it is as the inventory describes it.

    Its host name is its name, and its peers reach it at ``address``. ``mpirun``, ``python`` and ``all_reduce_perf`` of
    the inventory exist, or these programs are on PATH; the perf programs are those of nccl-tests, and torch is
    installed. ``slots`` applies to a node without ``slots`` and ``gpus``; each rank has one core. Raise ArtifactError
    if the number of ranks is unknown.
    """
    family, major = mpi
    found = slots_of(node, {node.name: slots} if slots is not None else None)
    version = _VERSIONS[family].format(major=major)
    perf = sibling(node.all_reduce_perf or "", program)
    return Readiness(
        node=node,
        host=node.name,
        uid=0,
        cores=found,
        gpus=node.gpus or 0,
        interface=node.interfaces.first if node.interfaces else None,
        interface_address=None,
        interfaces="",
        ssh_accepted_on=None,
        ssh_port=node.port,
        mpirun=node.mpirun or ("mpirun" if family == "openmpi" else "mpiexec"),
        mpirun_version=version,
        python=node.python or "python3",
        python_version="3",
        torch="2.9",
        nccl=("2.28",),
        perf=perf,
        core_perf=None,
        ports=frozenset(),
        host_keys=(),
        identity=node.identity_file,
        known_hosts=node.known_hosts,
    )
