"""Deciding how to launch, from what nodes answered: launcher, library, program, placement, environment."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterctl.artifacts.env import Communication, Library, variables
from clusterctl.artifacts.ranks import agreed, agreed_env
from clusterctl.benchmarks.collective import program_of
from clusterctl.errors import LaunchError, UsageError
from clusterctl.inventory import nodeset
from clusterctl.launch import trust
from clusterctl.launch.base import Launcher, LaunchPlan, MapBy, Placement, spread
from clusterctl.launch.hydra import Hydra
from clusterctl.launch.local import LocalSpawn
from clusterctl.launch.openmpi4 import OpenMpi4
from clusterctl.launch.openmpi5 import OpenMpi5
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.srun import Srun
from clusterctl.launch.torchrun import Torchrun
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
    """Return the nodes, this machine first if it is one of them: only from here are all others reached."""
    return tuple(sorted(answers, key=lambda answer: answer.node.connection != "local"))


def known_launcher(name: str) -> str:
    """Return the name of a launcher that there is; raise UsageError for any other."""
    if name not in LAUNCHERS:
        raise UsageError(
            f"there is no launcher {name!r} yet", hint=f"the launchers are: {', '.join(sorted(LAUNCHERS))}"
        )
    return name


def known_library(name: str) -> Library:
    """Return the name of a library that there is; raise UsageError for any other."""
    for library_name in LIBRARIES:
        if library_name == name:
            return library_name
    raise UsageError(f"there is no library {name!r}", hint=f"the libraries are: {', '.join(LIBRARIES)}")


def known_mapping(name: str) -> MapBy:
    """Return a way to place ranks that there is; raise UsageError for any other."""
    if name == "slot":
        return "slot"
    if name == "node":
        return "node"
    raise UsageError(f"ranks cannot be mapped by {name!r}", hint="--map-by slot or --map-by node")


def require_servable(asked: str | None, nodes: int) -> None:
    """Raise UsageError when the launcher asked for cannot start ranks on so many nodes."""
    if asked == "local" and nodes > 1:
        raise UsageError(
            "the launcher 'local' starts ranks on one node only",
            hint="use --launcher openmpi, or --limit NODE",
        )


def launcher(asked: str | None, answers: Sequence[Readiness]) -> Launcher:
    """Return the launcher asked for, or the one that fits; UsageError for one that cannot serve."""
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
    """Return the library asked for, else NCCL where every node has GPUs, else what is installed.

    Raise LaunchError where nobody asked and a node has lost the GPUs that the inventory says it has.
    """
    if asked is not None:
        return asked
    if all(answer.gpus for answer in answers):
        return "nccl"
    # Chosen by what is left, the CPUs would be measured, and the run would end well.
    without = [answer.node.name for answer in answers if answer.node.gpus and not answer.gpus]
    if without:
        raise LaunchError(
            f"{nodeset.fold(without)}: the inventory says GPUs, but nvidia-smi lists none there",
            hint="clusterctl check INVENTORY --only gpu-driver; leave it out with --limit; "
            "or say what to measure without GPUs: --library gloo",
        )
    if all(answer.core_perf or (collective and answer.node.all_reduce_perf) for answer in answers):
        return "ccore"
    return "gloo"


@dataclass(frozen=True, slots=True)
class Program:
    """What every rank runs: the words before the benchmark's own flags, and whether they need torch."""

    words: tuple[str, ...]
    torch: bool
    perf: bool


def same(answers: Sequence[Readiness], values: Sequence[str | None], what: str) -> str:
    """Return the one value that all nodes share; LaunchError when they differ."""
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
    """Return nccl-tests' program where all nodes have it for this library, else the torch program like it."""
    program = program_of(name)
    if chosen == "nccl":
        paths = [answer.perf for answer in answers]
    else:
        # A path that the inventory names is used or refused, never replaced in silence.
        paths = [answer.perf if answer.node.all_reduce_perf else answer.core_perf for answer in answers]
    wanted = any(answer.node.all_reduce_perf for answer in answers)
    if chosen != "gloo" and (wanted or all(paths)):
        if not all(paths):
            return Program((program,), torch=False, perf=True)
        return Program((same(answers, paths, f"the path of {program}"),), torch=False, perf=True)
    found = torch_program(answers, archive, "collective")
    # A small message on NVLink is faster than Python, which starts it: that needs a CUDA graph.
    graph = ("-G", "auto") if chosen == "nccl" else ()
    return Program((*found.words, name, "--backend", chosen, *graph), torch=True, perf=False)


def comparable_program(name: str, chosen: Library, answers: Sequence[Readiness], archive: str) -> Program:
    """Return the torch program, called the same way for every library: only the library differs."""
    found = torch_program(answers, archive, "collective")
    return Program((*found.words, name, "--backend", chosen), torch=True, perf=False)


def told_of_deadline(program: Program, timeout_s: float) -> Program:
    """Return the program with how long its ranks are waited for: just before, a rank's log gets where it hangs.

    Only the torch program writes that; -T of nccl-tests ends a test instead.
    """
    return replace(program, words=(*program.words, "-T", f"{timeout_s:g}")) if program.torch else program


def mapping(asked: MapBy | None, answers: Sequence[Readiness]) -> MapBy:
    """Return how ranks are placed: node after node where devices count, in turn where slots are but cores."""
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
    """Return the nodes' slots; cores that nobody promised to be the limit are overbooked evenly."""
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
    """Return the variables for all ranks, and those of them whose values no command line may show."""
    first = members[0]
    nodes = [member.node for member in members]
    rdma = agreed(nodes, "rdma_devices")
    alone = len(members) == 1
    # Ranks of one node meet over the loopback interface, whatever the node's name resolves to. Where the inventory
    # names interfaces the library gets its words whole: "=" keeps bond0 from meaning bond0.100, others are rails.
    ifname = agreed(nodes, "socket_ifname") or ("lo" if alone and chosen != "nccl" else None)
    # Across nodes NCCL says as much as the proof of its fast path needs.
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
    # Apart from MASTER_PORT, because torchrun's own store listens there.
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
                f"{name} is {value[:60]!r} in the inventory's env, and no port",
                hint="leave it out: a free one is chosen; or write 1 to 65535",
            )
    hidden = {n: value for n, value in found.items() if value is not None and names_a_secret(n, value)}
    shown = {name: None if name in hidden else value for name, value in found.items()}
    return tuple(shown.items()), tuple(hidden.items())
