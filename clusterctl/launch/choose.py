"""Choose launcher, library, program and mapping from the nodes' answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from clusterctl.benchmarks.collective import IN_EVERY_PROGRAM, program_of
from clusterctl.benchmarks.training import Training
from clusterctl.errors import LaunchError, UsageError
from clusterctl.facts.subjects.python import INTERPRETER
from clusterctl.inventory import nodeset
from clusterctl.launch import foreign_library
from clusterctl.launch.base import MapBy, RankLauncher
from clusterctl.launch.environment import Library, backend
from clusterctl.launch.launchers.hydra import Hydra
from clusterctl.launch.launchers.local import LocalSpawn
from clusterctl.launch.launchers.mpi_version import Family
from clusterctl.launch.launchers.openmpi import OpenMpi
from clusterctl.launch.launchers.srun import Srun
from clusterctl.launch.launchers.torchrun import Torchrun
from clusterctl.launch.preflight import Readiness
from clusterctl.text.closest import did_you_mean, spelled
from clusterctl.text.typed_inventory import filled

LAUNCHERS: dict[str, RankLauncher] = {
    "openmpi": OpenMpi(),
    "mpich": Hydra(),
    "torchrun": Torchrun(),
    "srun": Srun(),
    "local": LocalSpawn(),
}
OWN_LIBRARIES: tuple[Library, ...] = ("nccl", "gloo", "ccore", "nccl+ccore")
LIBRARIES: tuple[Library, ...] = (*OWN_LIBRARIES, *foreign_library.FOREIGN)
# The libraries that have Horovod's API, and those whose trainings can send only the largest gradients.
WITH_HOROVOD_API: tuple[Library, ...] = ("ccore", *foreign_library.WITH_HOROVOD_API)
WITH_TOP_K: tuple[Library, ...] = ("ccore",)
# The backends whose calls a CUDA graph may capture; on the node, the program finds out whether it can.
_CAPTURED = ("nccl", "ccore")
_FAMILIES: dict[str, Family] = {"openmpi": "openmpi", "mpich": "mpich"}


def launching_first(answers: Sequence[Readiness]) -> tuple[Readiness, ...]:
    """Return the nodes with this machine first if it is one of them: only this machine surely reaches all others."""
    return tuple(sorted(answers, key=lambda answer: answer.node.connection != "local"))


def known_launcher(name: str) -> str:
    """Return a known launcher's name; raise UsageError for an unknown one."""
    name = spelled(name, tuple(LAUNCHERS))
    if name not in LAUNCHERS:
        raise UsageError(f"unknown launcher {name!r}", hint=did_you_mean(name, sorted(LAUNCHERS)))
    return name


def known_library(name: str) -> Library:
    """Return a known library's name; raise UsageError for an unknown one."""
    name = spelled(name, LIBRARIES)
    for library_name in LIBRARIES:
        if library_name == name:
            return library_name
    raise UsageError(f"unknown library {name!r}", hint=did_you_mean(name, LIBRARIES))


def own_library(name: str) -> Library:
    """Return a known library that needs no proof of its vendor; raise UsageError for any other."""
    if name in foreign_library.FOREIGN:
        raise UsageError(
            f"--library {name} is measured by bench only", hint=f"choose from: {', '.join(OWN_LIBRARIES)}"
        )
    return known_library(name)


def require_collectives(chosen: Library) -> None:
    """Raise UsageError if a library takes part only in a training."""
    known = foreign_library.described(chosen)
    if known is not None and not known[1].collectives:
        raise UsageError(
            f"--library {chosen} cannot be measured by single collectives: {known[0].title} takes part in a training",
            hint="measure a training: --model resnet50",
        )


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


def launcher(asked: str | None, answers: Sequence[Readiness]) -> RankLauncher:
    """Return the requested launcher, or choose one; raise UsageError if it cannot serve these nodes."""
    if asked is None:
        alone = len(answers) == 1 and answers[0].node.connection == "local"
        asked = "local" if alone and answers[0].mpirun is None else "openmpi"
        if answers[0].mpi("openmpi") is None and answers[0].mpi("mpich") is not None:
            asked = "mpich"
    require_servable(asked, len(answers))
    open_mpi = answers[0].mpi("openmpi")
    if asked == "openmpi" and open_mpi is not None and open_mpi[1].major >= 5:
        return OpenMpi(5)
    return LAUNCHERS[known_launcher(asked)]


def family(launcher_name: str) -> Family | None:
    """Return the MPI that a launcher belongs to, None for launchers without MPI."""
    return _FAMILIES.get(launcher_name)


def require_trainable(training: Training | None, chosen: Library) -> None:
    """Raise UsageError if the training's API or hook does not exist for this library."""
    if training is None:
        return
    if training.api == "horovod" and chosen not in WITH_HOROVOD_API:
        raise UsageError(
            f"--api horovod does not exist for the library {chosen}",
            hint=f"choose --library {' or '.join(WITH_HOROVOD_API)}, or --api ddp",
        )
    if training.hook == "topk" and chosen not in WITH_TOP_K:
        raise UsageError(
            f"--hook topk does not exist for the library {chosen}",
            hint=f"choose --library {' or '.join(WITH_TOP_K)}, or --hook fp16",
        )


def library(
    asked: Library | None, answers: Sequence[Readiness], *, collective: bool, training: Training | None = None
) -> Library:
    """Return the requested library, else the one that the training needs, NCCL on GPUs, or an installed one.

    Without either, a collective is measured by ccore, because the hint should name the smaller installation.

    Raise LaunchError if no library is requested and a node lacks the GPUs that the inventory lists for it.
    """
    if asked is not None:
        return asked
    if training is not None and (training.api == "horovod" or training.hook == "topk"):
        return "ccore"
    if all(answer.gpus for answer in answers):
        return "nccl"
    # A silent fallback would measure the CPUs and report success.
    without = [answer.node.name for answer in answers if answer.node.gpus and not answer.gpus]
    if without:
        raise LaunchError(
            f"{nodeset.fold(without)}: the inventory lists GPUs, but nvidia-smi finds none",
            hint=filled(
                "run clusterctl check INVENTORY --only gpu-driver; exclude the node with --limit; or measure without "
                "GPUs: --library gloo"
            ),
        )
    if all(answer.core_perf or (collective and answer.node.all_reduce_perf) for answer in answers):
        return "ccore"
    # collective_core's own programs need the least to install.
    return "ccore" if collective and not all(answer.torch for answer in answers) else "gloo"


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
            hint=f"make {what} the same on all nodes of one launch"
            + (filled(": clusterctl bootstrap INVENTORY --only python") if INTERPRETER in values else ""),
        )
    return first


def torch_program(answers: Sequence[Readiness], archive: str, workload: str) -> Program:
    """Return the program of a workload that needs torch."""
    python = "python3"
    if all(answer.python for answer in answers):
        python = same(answers, [answer.python for answer in answers], "the path of python")
    return Program((python, archive, workload), torch=True, perf=False)


def collective_program(name: str, chosen: Library, answers: Sequence[Readiness], archive: str) -> Program:
    """Return nccl-tests' program if all nodes have it for this library, else the equivalent torch program.

    collective_core's own program measures host memory, so nodes with GPUs measure it through torch.
    """
    program = program_of(name)
    on_gpus = all(answer.gpus for answer in answers)
    if backend(chosen) == "nccl":
        paths = [answer.perf for answer in answers]
    else:
        # A path that the inventory sets is used or rejected, but never replaced silently.
        paths = [answer.perf if answer.node.all_reduce_perf else answer.core_perf for answer in answers]
    wanted = any(answer.node.all_reduce_perf for answer in answers)
    if chosen == "ccore" and on_gpus and not wanted:
        return comparable_program(name, chosen, answers, archive)
    if chosen != "gloo" and (wanted or all(paths)):
        if not all(paths):
            return Program((program,), torch=False, perf=True)
        return Program((same(answers, paths, f"the path of {program}"),), torch=False, perf=True)
    return comparable_program(name, chosen, answers, archive)


def comparable_program(name: str, chosen: Library, answers: Sequence[Readiness], archive: str) -> Program:
    """Return the torch program, which is the same for every library, so that only the library differs."""
    found = torch_program(answers, archive, "collective")
    # Python takes longer to start a small transfer over NVLink than the transfer takes: only a CUDA graph can time it.
    captured = backend(chosen) in _CAPTURED and all(answer.gpus for answer in answers)
    graph = ("-G", "auto") if captured else ()
    return Program((*found.words, name, "--backend", backend(chosen), *graph), torch=True, perf=False)


def require_measurable(program: Program, *, datatype: str, op: str) -> None:
    """Raise LaunchError if the chosen program lacks the type of elements or the operator."""
    for flag, asked in (("datatype", datatype), ("op", op)):
        if program.torch and asked not in IN_EVERY_PROGRAM[flag]:
            raise LaunchError(
                f"--{flag} {asked} cannot be measured: the torch program runs here, which has no {asked}",
                hint=f"choose from: {', '.join(IN_EVERY_PROGRAM[flag])}; nccl-tests and collective_core's own "
                "programs measure more",
            )


def several_gpus(
    answers: Sequence[Readiness], gpus: int, program: Program, *, shared: bool
) -> tuple[Readiness, ...]:
    """Return the nodes with a slot per process of so many GPUs; raise LaunchError if they or the program cannot."""
    if program.torch or not all(answer.gpus for answer in answers) or shared:
        raise LaunchError(
            f"-g {gpus} needs GPUs on every node and nccl-tests: "
            + (
                "--oversubscribe has one GPU per process"
                if shared
                else "what runs here has one GPU per process"
            ),
            hint="leave out -g, or bring nccl-tests to the nodes (bootstrap --only mpi)",
        )
    few = [answer.node.name for answer in answers if answer.slots < gpus]
    if few:
        raise LaunchError(
            f"-g {gpus}: {nodeset.fold(few)} has fewer slots than that",
            hint="choose a smaller -g, or leave out these nodes with --limit",
        )
    return tuple(
        replace(answer, node=answer.node.model_copy(update={"slots": answer.slots // gpus}))
        for answer in answers
    )


def nccl_symbols(answers: Sequence[Readiness]) -> str:
    """Return the path of collective_core's NCCL-symbol library, beside its programs; the same on all nodes."""
    programs = [answer.core_perf for answer in answers]
    program = same(answers, programs, "the path of collective_core")
    return str(PurePosixPath(program).parent.parent / "lib" / "libcollective_core_nccl.so")


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
