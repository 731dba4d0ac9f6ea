"""Derive what a launch needs from a node's facts, or from the inventory for what is only printed; no side effects."""

from __future__ import annotations

from clusterctl.artifacts.ranks import slots_of
from clusterctl.benchmarks.collective import sibling
from clusterctl.errors import LaunchError
from clusterctl.facts.base import malformed
from clusterctl.facts.catalog import is_complete
from clusterctl.facts.model.host import CpuTopology
from clusterctl.facts.model.launch import MeshKey
from clusterctl.facts.model.node import NodeFacts
from clusterctl.facts.model.python import NodePython
from clusterctl.inventory.model import Node
from clusterctl.launch import foreign_library, node_links
from clusterctl.launch.environment import Library
from clusterctl.launch.launchers.mpi_version import Family
from clusterctl.launch.preflight import Readiness, interface_of

READS = frozenset(
    {
        "cpu",
        "gpu",
        "launch",
        "limits",
        "modules",
        "network",
        "pci",
        "python",
        "rdma",
        "session",
        "system",
        "versions",
    }
)
"""The subjects of the facts that a launch reads."""


_VERSIONS: dict[Family, str] = {
    "openmpi": "mpirun (Open MPI) {major}.0.0",
    "mpich": "HYDRA build details: Version: {major}.0",
}


def values(
    node: Node, known_hosts: str | None, program: str, library: Library | None = None
) -> dict[str, str]:
    """Return the values of the request for the probe of one node, besides the settings that every probe reads."""
    return {
        "MPIRUN": node.mpirun or "",
        "PERF": sibling(node.all_reduce_perf, program) if node.all_reduce_perf else "",
        "PROGRAM": program,
        "IDENTITY": node.identity_file or "",
        "KNOWN_HOSTS": known_hosts or node.known_hosts or "",
        "LIBRARY": foreign_library.wanted(library),
    }


def of_facts(node: Node, facts: NodeFacts, host_key: str | None = None) -> Readiness:
    """Return what a launch uses of a node's facts of ``READS``.

    ``host_key`` is the one that the controller verified at its login, as ``type base64``; None without a login.
    Raise LaunchError if these facts are incomplete or malformed, or if ``socket_ifname`` only excludes an interface.
    """
    session, programs = facts.session, facts.launch
    complete = is_complete(facts, ("session", "launch", "python")) and facts.root.uid >= 0
    if session is None or programs is None or not complete:
        raise LaunchError(f"{node.name} did not answer the launch probe completely")
    why = malformed(
        session.accepted, session.cpus, session.listening,
        facts.gpu.devices, facts.rdma.devices, facts.limits.memlock, facts.python,
    )  # fmt: skip
    if why:
        raise LaunchError(f"{node.name} gave the launch probe a malformed answer: {why:.120}")
    wanted = interface_of(node)
    interface = None if wanted is None else facts.network.interface(wanted)
    accepted = session.accepted.value
    # Variables in `env` of the inventory take precedence over its settings, as they do for the ranks.
    links, evidence = node_links.of_facts(facts, node.env.get("NCCL_IB_HCA", node.rdma_devices))
    python, mpirun, hydra = facts.python.or_else(NodePython()).ranks, programs.mpirun, programs.hydra
    return Readiness(
        node=node,
        host=facts.system.hostname.value or node.name,
        uid=facts.root.uid,
        cores=_cores(session.cpus.value, facts.cpu.topology.value),
        gpus=links.gpus,
        interface=wanted if interface else None,
        interface_address=facts.network.ipv4(interface.name) if interface else None,
        interfaces=" ".join(found.name for found in facts.network.interfaces.or_else(())),
        ssh_accepted_on=accepted.address if accepted else None,
        ssh_port=accepted.port if accepted else None,
        mpirun=mpirun.path if mpirun else None,
        mpirun_version=mpirun.version if mpirun else "",
        python=python.path if python else None,
        python_version=python.version if python else None,
        torch=python.torch if python else None,
        perf=programs.perf,
        core_perf=python.core_perf if python else None,
        library=python.library if python else None,
        ports=frozenset(session.listening.or_else(())),
        host_keys=session.keys_to_pin(host_key),
        identity=programs.identity,
        known_hosts=programs.known_hosts,
        mesh_keys=_own_first(programs.mesh_keys, node),
        cpu_model=_cpu_model(facts.cpu.topology.value),
        srun=programs.srun,
        slurm_nodes=programs.slurm_nodes,
        pyxis=programs.pyxis,
        enroot=programs.enroot,
        hydra=hydra.path if hydra else None,
        hydra_version=hydra.version if hydra else "",
        links=links,
        nccl=facts.versions.nccl_files,
        imex=any("imex" in device for device in facts.gpu.fabric_devices),
        evidence=evidence,
    )


def _own_first(keys: tuple[MeshKey, ...], node: Node) -> tuple[MeshKey, ...]:
    """Return the mesh keys, those of the mesh that the inventory names first."""
    return tuple(sorted(keys, key=lambda key: key.mesh != node.requirements.ssh_mesh.name))


def _cores(allowed: tuple[int, ...] | None, topology: CpuTopology | None) -> int:
    """Return the number of online processors on which the session may run, as nproc counts them; at least 1."""
    online = allowed if topology is None else topology.online
    able = set(online or ()) & set(allowed if allowed is not None else online or ())
    return max(1, len(able))


def _cpu_model(topology: CpuTopology | None) -> str | None:
    """Return the model's name; None for processors that report only a part number (arm64)."""
    return None if topology is None or topology.model_name.startswith("0x") else topology.model_name or None


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
