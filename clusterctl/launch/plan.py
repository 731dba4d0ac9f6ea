"""Plan launches: from a request and from what the nodes have, without side effects.

:func:`launch` makes every command that starts ranks, whether ``bench`` starts it, ``bench --dry-run`` prints it, or
``render`` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from clusterctl.artifacts import enroot
from clusterctl.artifacts.ranks import agreed, agreed_env
from clusterctl.benchmarks.base import Fault
from clusterctl.benchmarks.collective import CollectiveSweep, program_of
from clusterctl.benchmarks.model_names import OF_BERT
from clusterctl.benchmarks.sweep_sizes import missed_end, reaching_end
from clusterctl.benchmarks.training import Api, Training
from clusterctl.errors import LaunchError
from clusterctl.inventory import interfaces
from clusterctl.inventory.model import ContainerSettings, Node
from clusterctl.launch import choose, environment, foreign_library, nccl_dumps, preflight, user_program
from clusterctl.launch import fast_path as trust
from clusterctl.launch.base import LaunchPlan, MapBy, Placement, RankLauncher, spread
from clusterctl.launch.environment import Communication, Environment, Library, backend, variables
from clusterctl.launch.foreign_library import FOREIGN
from clusterctl.launch.identity import LaunchIdentity
from clusterctl.launch.preflight import Needs, Readiness
from clusterctl.launch.request import Request
from clusterctl.text.wording import counted
from clusterctl.trust import paths
from clusterctl.workloads.archive import ARCHIVE
from clusterctl.workloads.shared_gpu import SHARE_GPUS

CPU_SWEEP = CollectiveSweep(min_bytes=8, max_bytes=8 << 20, step_factor=4, iters=10, warmup_iters=2)
SHARING = 2
"""How many ranks share each GPU if ``--oversubscribe`` comes without ``-np``."""
GPU_SWEEP = CollectiveSweep(min_bytes=8, max_bytes=1 << 30, step_factor=2, iters=20, warmup_iters=5)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Hold what all launches of one request share; the launching node comes first in ``answers``."""

    request: Request
    answers: tuple[Readiness, ...]
    launcher: RankLauncher
    library: Library
    program: choose.Program
    np: int
    map_by: MapBy
    identity: LaunchIdentity

    @property
    def on_gpus(self) -> bool:
        """Tell whether every node has GPUs."""
        return all(answer.gpus for answer in self.answers)

    @property
    def sweep(self) -> CollectiveSweep:
        """Return the sweep of a collective."""
        return sweep_of(GPU_SWEEP if self.on_gpus else CPU_SWEEP, self.request)

    @property
    def training(self) -> Training | None:
        """Return the training with its backend and deadline; None for a collective."""
        asked = self.request.training
        if asked is None:
            return None
        api: Api = "horovod" if self.library in foreign_library.WITH_HOROVOD_API else asked.api
        return replace(asked, backend=backend(self.library), api=api, timeout_s=self.request.timeout_s)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the options of the command line set; those of a variant take precedence."""
        return {**(self.training.variables() if self.training else {}), **dict(self.request.environment)}

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms of the workload that the command line asks for."""
        return self.training.mechanisms() if self.training else ()

    def unmet(self) -> tuple[Fault, ...]:
        """Return a fault for each requirement that a node does not meet."""
        needs = Needs(
            mpirun=choose.family(self.launcher.name), srun=self.launcher.by_slurm,
            torch=(self.program.torch and not self._core_instead_of_torch) or self.launcher.name == "torchrun",
            perf=self.program.perf, program=program_of(self.request.collective), collective_core=self._needs_core(),
            gpus=self.library if backend(self.library) in ("nccl", "accl") else None,
            library=self.library,
        )  # fmt: skip
        return preflight.judge(self.answers, needs)

    def require_partner(self) -> None:
        """Raise LaunchError for a collective of one rank: it sends nothing, so that its figures mean nothing."""
        if not self.request.is_collective or self.np * self.sweep.gpus > 1:
            return
        wish = "-np 2" if all(answer.slots_are_cores for answer in self.answers) else "-np 2 --oversubscribe"
        raise LaunchError(
            f"{self.request.collective} needs at least two ranks, because one rank sends nothing",
            hint=f"let two ranks share {'the GPU' if self.on_gpus else 'this node'}: {wish}; or add a node",
        )

    def _nodes(self) -> list[Node]:
        return [answer.node for answer in self.answers]

    def _needs_core(self) -> str | None:
        """Return how to do without collective_core if every rank needs it, else None."""
        if self.library == "nccl+ccore":
            return "choose --library nccl"
        if self._core_instead_of_torch:
            return "choose --library gloo, which needs torch"
        # The inventory may name another build than that of the installed package.
        if self.library != "ccore" or self.training is None or "CCORE_LIBRARY" in agreed_env(self._nodes()):
            return None
        return "choose --api ddp" if self.training.api == "horovod" else "choose --library gloo"

    @property
    def _core_instead_of_torch(self) -> bool:
        """Tell whether a node lacks torch and would not need it if collective_core's own programs were on all nodes."""
        request = self.request
        return (
            self.library == "ccore" and self.program.torch and self.training is None and not self.on_gpus
            and request.program is None and not (request.same_program or request.oversubscribe or request.proving)
            and any(answer.torch is None for answer in self.answers)
        )  # fmt: skip

    def notes(self) -> tuple[str, ...]:
        """Return warnings that do not prevent the launch."""
        unlike = preflight.unlike_torch(self.answers) if self.program.torch else None
        missed = missed_end(self.sweep) if self.request.is_collective else None
        notes = (self._sharing(), self._precision(), unlike, missed, *environment.misspelt(self.given))
        return tuple(note for note in notes if note)

    @property
    def given(self) -> tuple[str, ...]:
        """Return the names of the variables that the inventory and the command line give the ranks."""
        return (*agreed_env(self._nodes()), *self.environment)

    def _sharing(self) -> str | None:
        """Return a warning if there are more ranks than slots."""
        slots, np = sum(answer.slots for answer in self.answers), max((self.np, *(self.request.points or ())))
        if np <= slots:
            return None
        if self.on_gpus:
            return f"{np} ranks share {counted(slots, 'GPU')}, so the figures are not those of as many GPUs"
        return f"{np} ranks share {counted(slots, 'core')}, so the figures are low and not meaningful"

    def _precision(self) -> str | None:
        """Return a note if a training on GPUs has the default precision, which leaves their tensor cores idle."""
        asked = self.request.training
        if asked is None or not self.on_gpus or not asked.default_precision:
            return None
        layout = "" if asked.channels_last or asked.model in OF_BERT else " --channels-last"
        faster = f"--precision amp-bf16{layout}"
        return f"{asked.model} trains in fp32, which leaves the GPUs' tensor cores idle; {faster} uses them"

    def launches(self) -> tuple[LaunchPlan, ...]:
        """Return the launches in their order: one for a collective, one for each point of a training or program."""
        if self.request.is_collective:
            return (self.launch(self.np, self.sweep.argv(self.program.words), dumping=True),)
        words = self.training.argv(self.program.words) if self.training else self.program.words
        # Nothing is written, and no rank is wrapped, where it could change what a program of the user does.
        dumping = self.training is not None
        return tuple(self.launch(np, words, number, dumping=dumping) for number, np in enumerate(self.points))

    @property
    def points(self) -> tuple[int, ...]:
        """Return the numbers of ranks: those of the request, else those of the scaling curve of a training."""
        if self.request.points is not None or self.request.np is not None or self.request.program is not None:
            return self.request.points or (self.np,)
        return default_points(self.np, [answer.slots for answer in self.answers])

    def launch(
        self, np: int, words: tuple[str, ...], number: int = 0, *, dumping: bool = False
    ) -> LaunchPlan:
        """Return the launch of ``np`` ranks of a program; launches of one run with other numbers get other ports.

        ``dumping``: NCCL writes its topology and graphs, which the run keeps.
        """
        return launch(
            self.answers,
            launcher=self.launcher,
            library=self.library,
            np=np,
            map_by=self.map_by,
            program=words,
            options=self.environment,
            timeout_s=self.request.timeout_s,
            identity=self.identity,
            number=number,
            oversubscribe=self.request.oversubscribe,
            proving=self.request.proving,
            dumping=dumping and backend(self.library) == "nccl",
            foreign=self.request.program is not None,
            container=None if self.request.program is None else self.request.program.container,
        )


def plan(request: Request, answers: Sequence[Readiness], identity: LaunchIdentity) -> RequestPlan:
    """Choose what the request leaves open; raise UsageError or LaunchError if these nodes cannot serve it.

    ``answers`` hold each node's settings of the inventory and what the node has.
    """
    answers = choose.launching_first(answers)
    if request.pair_if_alone and request.np is None and sum(answer.slots for answer in answers) == 1:
        # Cores are shared without that option, which only the torch program supports.
        shared = not all(answer.slots_are_cores for answer in answers)
        request = replace(request, np=2, oversubscribe=request.oversubscribe or shared)
    launcher = choose.launcher(request.launcher, answers)
    training = request.training
    library = choose.library(request.library, answers, collective=request.is_collective, training=training)
    choose.require_trainable(training, library)
    if request.program is not None:
        choose.own_library(library)
        # What collective_core's own programs could measure says nothing about a program of the user.
        library = "gloo" if request.library is None and library == "ccore" else library
    archive = f"{identity.directory}/{ARCHIVE}"
    if request.program is not None:
        words = user_program.wrapped(request.program, answers, identity.directory)
        program = choose.Program(words, torch=False, perf=False)
    elif request.training is None:
        # Only the torch program gives each rank what NCCL needs to share a GPU, and reports what collective_core read.
        choose.require_collectives(library)
        proving = (library == "ccore" and request.proving) or library in FOREIGN
        same_program = request.same_program or request.oversubscribe or proving
        wished = sweep_of(CPU_SWEEP, request)
        choosing = choose.comparable_program if same_program else choose.collective_program
        program = choose.told_of_deadline(
            choosing(request.collective, library, answers, archive), request.timeout_s
        )
        choose.require_measurable(program, datatype=wished.datatype, op=wished.op)
        if wished.gpus > 1:
            answers = choose.several_gpus(answers, wished.gpus, program, shared=request.oversubscribe)
    else:
        program = choose.torch_program(answers, archive, "training")
    np = request.np or sum(answer.slots for answer in answers) * (SHARING if request.oversubscribe else 1)
    map_by = choose.mapping(request.map_by, answers)
    # Too many ranks are reported before missing programs, which more nodes would have as well.
    most = max((np, *(request.points or ())))
    spread(_slots(answers, most, oversubscribe=request.oversubscribe), most, map_by)
    return RequestPlan(
        request=request,
        answers=answers,
        launcher=launcher,
        library=library,
        program=program,
        np=np,
        map_by=map_by,
        identity=identity,
    )


def default_points(np: int, slots: Sequence[int]) -> tuple[int, ...]:
    """Return 1 rank, one full node, and ``np`` ranks: the points for scaling within and between nodes."""
    return tuple(sorted({1, min(np, slots[0]), np}))


def sweep_of(default: CollectiveSweep, request: Request) -> CollectiveSweep:
    """Return the requested sweep; a default end moves so that the sizes reach the requested one."""
    asked = request.sweep
    chosen = replace(default, name=request.collective, **asked)
    first, last = chosen.min_bytes, chosen.max_bytes
    if first > last:
        chosen = (
            replace(chosen, max_bytes=first) if "max_bytes" not in asked else replace(chosen, min_bytes=last)
        )
    return chosen if "min_bytes" in asked else reaching_end(chosen)


def launch(
    answers: Sequence[Readiness],
    *,
    launcher: RankLauncher,
    library: Library,
    np: int,
    map_by: MapBy,
    program: tuple[str, ...],
    options: Mapping[str, str] = MappingProxyType({}),
    timeout_s: float = math.inf,
    identity: LaunchIdentity | None = None,
    number: int = 0,
    forward: Sequence[str] = (),
    oversubscribe: bool = False,
    proving: bool = False,
    dumping: bool = False,
    foreign: bool = False,
    container: ContainerSettings | None = None,
) -> LaunchPlan:
    """Return the launch of ``np`` ranks on these nodes (the launching one first).

    ``options`` are variables that the command line names, ``forward`` names of variables that the launcher copies from
    its own environment. ``oversubscribe``: ranks may share GPUs. ``proving``: NCCL logs the variables that it reads.
    ``dumping``: NCCL writes its topology and graphs into the launch directory of every node. ``foreign``: ranks run a
    program of the user. ``container``: Slurm starts the ranks in its image.
    Without ``identity`` a person starts the command: it has no launch directory and no rendezvous.
    """
    slots = _slots(answers, np, oversubscribe=oversubscribe)
    counts = spread(slots, np, map_by)
    used = [(answer, count) for answer, count in zip(answers, counts, strict=True) if count]
    members = [answer for answer, _ in used]
    first = members[0]
    by_enroot = container is not None and not first.pyxis and all(member.enroot for member in members)
    if container is not None and by_enroot:
        enroot.require_file(container.image or "")
    env = _environment(
        members, np, library, launcher.name, options, forward, timeout_s=timeout_s, identity=identity, number=number,
        oversubscribe=oversubscribe, proving=proving, dumping=dumping,
        graphs=len(used) == 1 or nccl_dumps.writes_graphs(members, program),
    )  # fmt: skip
    if dumping and identity and len(used) > 1:
        program = nccl_dumps.wrapped(program, identity.directory)
    return LaunchPlan(
        launcher=launcher,
        token=identity.token if identity else "",
        mark=identity.mark if identity else "",
        directory=identity.directory if identity else "",
        placements=tuple(
            Placement(
                a.node.name, a.host, a.ssh_address, a.ssh_port or a.node.port, a.node.user, count,
                slots=max(a.slots, count) if oversubscribe else a.slots, local=a.node.connection == "local",
                host_keys=a.host_keys,
            )
            for a, count in used
        ),
        program=program,
        env=env.variables,
        secrets=env.secrets,
        map_by=map_by if launcher.in_turn else "slot",
        interfaces=first.node.interfaces,  # _environment has required that all members agree
        timeout_s=timeout_s,
        mpirun=_mpirun(first, launcher.name),
        python=_python(members, launcher.name) if identity else "python3",
        known_hosts=(first.known_hosts,) if first.known_hosts else (),
        identity_file=first.identity,
        mesh_keys=first.mesh_keys,
        foreign=foreign,
        container=container,
        by_enroot=by_enroot,
    )  # fmt: skip


def _python(members: Sequence[Readiness], launcher_name: str) -> str:
    if launcher_name == "torchrun":
        return choose.same(members, [member.python for member in members], "the path of python")
    return members[0].python or "python3"


def _mpirun(first: Readiness, launcher_name: str) -> str:
    family = choose.family(launcher_name)
    found = first.mpi(family) if family is not None else None
    return found[0] if found is not None else "mpirun"


def _slots(answers: Sequence[Readiness], np: int, *, oversubscribe: bool) -> list[int]:
    """Return the nodes' slots, overcommitted evenly if ``np`` exceeds them and they only count CPU cores, or may be."""
    slots = [answer.slots for answer in answers]
    if np > sum(slots) and (oversubscribe or all(answer.slots_are_cores for answer in answers)):
        turns = -(-np // sum(slots))
        return [count * turns for count in slots]
    return slots


def _environment(
    members: Sequence[Readiness],
    np: int,
    library: Library,
    launcher_name: str,
    options: Mapping[str, str],
    forward: Sequence[str],
    *,
    timeout_s: float,
    identity: LaunchIdentity | None,
    number: int,
    oversubscribe: bool,
    proving: bool,
    dumping: bool,
    graphs: bool,
) -> Environment:
    """Return the variables for all ranks, with the precedence of :func:`launch.environment.build`."""
    nodes = [member.node for member in members]
    agreed(nodes, "socket_ifname")
    settings = Communication(
        library=library, interfaces=nodes[0].interfaces, rdma_devices=agreed(nodes, "rdma_devices")
    )
    chosen = (
        _chosen(members, library, launcher_name, timeout_s, identity, number, logged=proving)
        if identity
        else {}
    )
    if dumping and identity:
        chosen |= nccl_dumps.variables(identity.directory, graphs=graphs)
    if identity is not None:
        chosen |= foreign_library.variables(library, {one.node.name: one.library for one in members})
    if library == "nccl+ccore":
        chosen |= {"LD_PRELOAD": choose.nccl_symbols(members), "CCORE_NCCL_REPORT": paths.REPORT_TO}
    if oversubscribe:
        chosen |= {SHARE_GPUS: "1"}
    found = environment.build(
        options=options, free=agreed_env(nodes), settings=variables(settings, np=np), chosen=chosen, forward=forward
    )  # fmt: skip
    if identity is not None:
        _require_ports(dict(found.variables))
    return found


def _chosen(
    members: Sequence[Readiness],
    library: Library,
    launcher_name: str,
    timeout_s: float,
    identity: LaunchIdentity,
    number: int,
    *,
    logged: bool,
) -> dict[str, str]:
    """Return the variables that clusterctl chooses: the rendezvous, threads, and the log that proves the path.

    ``logged``: NCCL logs in any case, because a variant's settings must be proven.
    """
    first, alone = members[0], len(members) == 1
    # Across nodes NCCL logs enough to prove which path it takes.
    nccl = backend(library) == "nccl"
    proving = nccl and (logged or not alone or library in FOREIGN)
    log = Communication(
        library=library,
        debug="INFO" if proving else "VERSION" if nccl else None,
        debug_subsystems=(trust.SETTINGS_SUBSYSTEMS if alone else trust.SUBSYSTEMS) if proving else None,
        debug_file=trust.log_file(launcher_name) if proving else None,
        # Ranks of one node use the loopback interface, whatever the node's name resolves to.
        interfaces=interfaces.parse("lo") if alone and not nccl else None,
    )
    port, core_port = identity.ports(first.ports, number)
    address = "127.0.0.1" if alone else first.fabric_address
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "CCORE_ROOT_ADDR": address,
        "CCORE_ROOT_PORT": str(core_port),
        "CCORE_JOB_SECRET": identity.secret,
        "CCORE_TIMEOUT_S": str(int(timeout_s) + 30),
        "OMP_NUM_THREADS": str(min(max(1, member.cores // max(1, member.slots)) for member in members)),
        "PYTHONUNBUFFERED": "1",
        **variables(log),
    }


def _require_ports(env: Mapping[str, str | None]) -> None:
    for name in ("MASTER_PORT", "CCORE_ROOT_PORT"):
        value = env[name] or ""
        if not (value.isdecimal() and len(value) <= 5 and 1 <= int(value) <= 65535):
            raise LaunchError(
                f"{name} in the inventory's `env` must be a port from 1 to 65535, not {value[:60]!r}",
                hint="remove it (clusterctl then chooses a free port), or set 1 to 65535",
            )
