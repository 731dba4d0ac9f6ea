"""Choose launcher, library, program, placement and environment from the nodes' answers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterctl.artifacts.env import Communication, Library, variables
from clusterctl.artifacts.ranks import agreed, agreed_env
from clusterctl.benchmarks.collective import program_of
from clusterctl.errors import LaunchError, UsageError
from clusterctl.inventory import nodeset
from clusterctl.launch import fast_path as trust
from clusterctl.launch.base import Launcher, LaunchPlan, MapBy, Placement, spread
from clusterctl.launch.launchers.hydra import Hydra
from clusterctl.launch.launchers.local import LocalSpawn
from clusterctl.launch.launchers.openmpi4 import OpenMpi4
from clusterctl.launch.launchers.openmpi5 import OpenMpi5
from clusterctl.launch.launchers.srun import Srun
from clusterctl.launch.launchers.torchrun import Torchrun
from clusterctl.launch.preflight import Readiness
from clusterctl.secret.scrub import names_a_secret

LAUNCHERS: dict[str, Launcher] = {
    "openmpi": OpenMpi4(),
    "mpich": Hydra(),
    "torchrun": Torchrun(),
    "srun": Srun(),
    "local": LocalSpawn(),
}
_OPEN_MPI_5 = OpenMpi5()
LIBRARIES: tuple[Library, ...] = ("nccl", "gloo", "ccore")
_PORTS = range(20000, 32000)


def launching_first(answers: Sequence[Readiness]) -> tuple[Readiness, ...]:
    """Return the nodes with this machine first if it is one of them: only this machine surely reaches all others."""
    return tuple(sorted(answers, key=lambda answer: answer.node.connection != "local"))


def known_launcher(name: str) -> str:
    """Return a known launcher's name; raise UsageError for an unknown one."""
    if name not in LAUNCHERS:
        raise UsageError(f"unknown launcher {name!r}", hint=f"choose from: {', '.join(sorted(LAUNCHERS))}")
    return name


def known_library(name: str) -> Library:
    """Return a known library's name; raise UsageError for an unknown one."""
    for library_name in LIBRARIES:
        if library_name == name:
            return library_name
    raise UsageError(f"unknown library {name!r}", hint=f"choose from: {', '.join(LIBRARIES)}")


def known_mapping(name: str) -> MapBy:
    """Return a known mapping; raise UsageError for an unknown one."""
    if name == "slot":
        return "slot"
    if name == "node":
        return "node"
    raise UsageError(f"unknown mapping {name!r}", hint="choose --map-by slot or --map-by node")


def require_servable(asked: str | None, nodes: int) -> None:
    """Raise UsageError if the requested launcher cannot start ranks on this number of nodes."""
    if asked == "local" and nodes > 1:
        raise UsageError(
            "the launcher 'local' starts ranks on one node only",
            hint="use --launcher openmpi, or --limit NODE",
        )


def launcher(asked: str | None, answers: Sequence[Readiness]) -> Launcher:
    """Return the requested launcher, or choose one; raise UsageError if it cannot serve these nodes."""
    if asked is None:
        alone = len(answers) == 1 and answers[0].node.connection == "local"
        asked = "local" if alone and answers[0].mpirun is None else "openmpi"
        if answers[0].mpi("openmpi") is None and answers[0].mpi("mpich") is not None:
            asked = "mpich"
    require_servable(asked, len(answers))
    open_mpi = answers[0].mpi("openmpi")
    if asked == "openmpi" and open_mpi is not None and open_mpi[1].major >= 5:
        return _OPEN_MPI_5
    return LAUNCHERS[known_launcher(asked)]


def library(asked: Library | None, answers: Sequence[Readiness], *, collective: bool) -> Library:
    """Return the requested library, else NCCL if every node has GPUs, else an installed one.

    Raise LaunchError if no library is requested and a node lacks the GPUs that the inventory lists for it.
    """
    if asked is not None:
        return asked
    if all(answer.gpus for answer in answers):
        return "nccl"
    # A silent fallback would measure the CPUs and report success.
    without = [answer.node.name for answer in answers if answer.node.gpus and not answer.gpus]
    if without:
        raise LaunchError(
            f"{nodeset.fold(without)}: the inventory lists GPUs, but nvidia-smi finds none",
            hint="run clusterctl check INVENTORY --only gpu-driver; exclude the node with --limit; "
            "or measure without GPUs: --library gloo",
        )
    if all(answer.core_perf or (collective and answer.node.all_reduce_perf) for answer in answers):
        return "ccore"
    return "gloo"


@dataclass(frozen=True, slots=True)
class Program:
    """Hold the command of every rank: the words before the benchmark's own flags, and whether it needs torch."""

    words: tuple[str, ...]
    torch: bool
    perf: bool


def same(answers: Sequence[Readiness], values: Sequence[str | None], what: str) -> str:
    """Return the value that all nodes share; raise LaunchError if they differ."""
    first = values[0]
    if first is None or any(value != first for value in values):
        listed = ", ".join(f"{a.node.name}: {v}" for a, v in zip(answers, values, strict=True))
        raise LaunchError(
            f"{what} differs between nodes ({listed})",
            hint=f"make {what} the same on all nodes of one launch",
        )
    return first


def torch_program(answers: Sequence[Readiness], archive: str, workload: str) -> Program:
    """Return the program of a workload that needs torch."""
    python = "python3"
    if all(answer.python for answer in answers):
        python = same(answers, [answer.python for answer in answers], "the path of python")
    return Program((python, archive, workload), torch=True, perf=False)


def collective_program(name: str, chosen: Library, answers: Sequence[Readiness], archive: str) -> Program:
    """Return nccl-tests' program if all nodes have it for this library, else the equivalent torch program."""
    program = program_of(name)
    if chosen == "nccl":
        paths = [answer.perf for answer in answers]
    else:
        # A path that the inventory sets is used or rejected, but never replaced silently.
        paths = [answer.perf if answer.node.all_reduce_perf else answer.core_perf for answer in answers]
    wanted = any(answer.node.all_reduce_perf for answer in answers)
    if chosen != "gloo" and (wanted or all(paths)):
        if not all(paths):
            return Program((program,), torch=False, perf=True)
        return Program((same(answers, paths, f"the path of {program}"),), torch=False, perf=True)
    found = torch_program(answers, archive, "collective")
    # Python takes longer to start a small transfer over NVLink than the transfer takes: only a CUDA graph can time it.
    graph = ("-G", "auto") if chosen == "nccl" else ()
    return Program((*found.words, name, "--backend", chosen, *graph), torch=True, perf=False)


def comparable_program(name: str, chosen: Library, answers: Sequence[Readiness], archive: str) -> Program:
    """Return the torch program, which is the same for every library, so that only the library differs."""
    found = torch_program(answers, archive, "collective")
    return Program((*found.words, name, "--backend", chosen), torch=True, perf=False)


def told_of_deadline(program: Program, timeout_s: float) -> Program:
    """Return the program with the launch's deadline, so that a hanging rank logs its stack just before it.

    Only the torch program does this; -T of nccl-tests ends the test instead.
    """
    return replace(program, words=(*program.words, "-T", f"{timeout_s:g}")) if program.torch else program


def mapping(asked: MapBy | None, answers: Sequence[Readiness]) -> MapBy:
    """Return the requested mapping, else node after node, or round-robin if slots only count CPU cores."""
    if asked is not None:
        return asked
    return "node" if all(answer.slots_are_cores for answer in answers) else "slot"


def plan(
    answers: Sequence[Readiness],
    *,
    np: int,
    map_by: MapBy,
    chosen: Library,
    program: tuple[str, ...],
    token: str,
    mark: str,
    directory: str,
    timeout_s: float,
    launcher_name: str = "openmpi",
) -> LaunchPlan:
    """Return the launch of ``np`` ranks on these nodes (the launching one first)."""
    counts = spread(_slots(answers, np), np, map_by)
    used = [(answer, count) for answer, count in zip(answers, counts, strict=True) if count]
    members = [answer for answer, _ in used]
    first = members[0]
    placements = tuple(
        Placement(a.node.name, a.host, a.ssh_address, a.ssh_port or a.node.port, a.node.user, count)
        for a, count in used
    )
    interface = None
    if any(a.interface for a in members):
        interface = same(members, [a.interface for a in members], "socket_ifname")
    env, secret = _environment(members, np, chosen, timeout_s, launcher_name)
    return LaunchPlan(
        token=token,
        mark=mark,
        directory=directory,
        placements=placements,
        program=program,
        env=env,
        secrets=secret,
        map_by=map_by if LAUNCHERS[launcher_name].in_turn else "slot",
        interface=interface,
        timeout_s=timeout_s,
        mpirun=_mpirun(first, launcher_name),
        python=_python(members, launcher_name),
        as_root=first.uid == 0,
        known_hosts=(first.known_hosts,) if first.known_hosts else (),
        identity_file=first.identity,
    )


def _python(members: Sequence[Readiness], launcher_name: str) -> str:
    if launcher_name == "torchrun":
        return same(members, [member.python for member in members], "the path of python")
    return members[0].python or "python3"


def _mpirun(first: Readiness, launcher_name: str) -> str:
    found = first.mpi("mpich" if launcher_name == "mpich" else "openmpi")
    return found[0] if found is not None else "mpirun"


def _slots(answers: Sequence[Readiness], np: int) -> list[int]:
    """Return the nodes' slots; slots that only count CPU cores are overcommitted evenly if ``np`` exceeds them."""
    slots = [answer.slots for answer in answers]
    if np > sum(slots) and all(answer.slots_are_cores for answer in answers):
        turns = -(-np // sum(slots))
        return [count * turns for count in slots]
    return slots


def _environment(
    members: Sequence[Readiness],
    np: int,
    chosen: Library,
    timeout_s: float,
    launcher_name: str,
) -> tuple[tuple[tuple[str, str | None], ...], tuple[tuple[str, str], ...]]:
    """Return the variables for all ranks, and separately the secret ones, which must not appear in a command line."""
    first = members[0]
    nodes = [member.node for member in members]
    rdma = agreed(nodes, "rdma_devices")
    alone = len(members) == 1
    # Ranks of one node use the loopback interface, whatever the node's name resolves to. A selector of the inventory is
    # passed on unchanged: "=" prevents bond0 from matching bond0.100, and further names are rails.
    ifname = agreed(nodes, "socket_ifname") or ("lo" if alone and chosen != "nccl" else None)
    # Across nodes NCCL logs enough to prove which path it takes.
    proving = chosen == "nccl" and not alone
    settings = Communication(
        library=chosen,
        debug="INFO" if proving else "VERSION" if chosen == "nccl" else None,
        debug_subsystems=trust.SUBSYSTEMS if proving else None,
        debug_file=trust.log_file(launcher_name) if proving else None,
        socket_ifname=ifname,
        rdma_devices=rdma if chosen == "nccl" else None,
        extra={},
        forward=(),
    )
    taken = first.ports
    free = (p for p in iter(lambda: secrets.choice(_PORTS), 0) if p not in taken)
    port = next(free)
    # Must differ from MASTER_PORT, where torchrun's own store listens.
    core_port = next(p for p in free if p != port)
    address = "127.0.0.1" if alone else first.fabric_address
    threads = min(max(1, member.cores // max(1, member.slots)) for member in members)
    defaults: dict[str, str | None] = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "CCORE_ROOT_ADDR": address,
        "CCORE_ROOT_PORT": str(core_port),
        "CCORE_JOB_SECRET": secrets.token_hex(16),
        "CCORE_TIMEOUT_S": str(int(timeout_s) + 30),
        "OMP_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        **variables(settings, np=np),
    }
    found = {**defaults, **agreed_env(nodes)}
    for name in ("MASTER_PORT", "CCORE_ROOT_PORT"):
        value = found[name] or ""
        if not (value.isdecimal() and len(value) <= 5 and 1 <= int(value) <= 65535):
            raise LaunchError(
                f"{name} in the inventory's `env` must be a port from 1 to 65535, not {value[:60]!r}",
                hint="remove it (clusterctl then chooses a free port), or set 1 to 65535",
            )
    hidden = {n: value for n, value in found.items() if value is not None and names_a_secret(n, value)}
    shown = {name: None if name in hidden else value for name, value in found.items()}
    return tuple(shown.items()), tuple(hidden.items())
