"""Plan the launch commands that ``render`` prints: for a person to start, or as ``bench`` starts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clusterctl.cli import console, launch_output
from clusterctl.cli.options import InventoryOption, LimitOption, require_alone
from clusterctl.cli.render.output import NpOption, SlotsOption, emit, load, place
from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean, spelled

if TYPE_CHECKING:
    from clusterctl.artifacts.ranks import RankPlacement
    from clusterctl.inventory.model import Node
    from clusterctl.launch.base import LaunchPlan, RankLauncher
    from clusterctl.launch.launchers.mpi_version import Family


class LibraryName(str, Enum):
    """Name the collective libraries."""

    nccl = "nccl"
    gloo = "gloo"
    ccore = "ccore"


LibraryOption = Annotated[
    LibraryName | None,
    typer.Option(help="The collective library.", show_default="nccl, with --bench as bench chooses"),
]
ProgramArgument = Annotated[
    list[str] | None, typer.Argument(metavar="PROGRAM", help="Program of the ranks, after --.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options that all launch commands of ``render`` share."""

    inventory: InventoryOption = None
    limit: LimitOption = None
    np: NpOption = None
    slots: SlotsOption = None
    library: LibraryOption = None
    bench: Annotated[
        bool,
        typer.Option(
            "--bench", help="Print the command and the files of 'bench', if nodes are as the inventory says."
        ),
    ] = False
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Train this model (resnet50, ...); the nodes need clusterctl installed, except with --bench.",
        ),
    ] = None
    batch_size: Annotated[int | None, typer.Option(min=1, help="Batch size per rank.")] = None
    collective: Annotated[
        str | None,
        typer.Option(metavar="COLLECTIVE", help="Measure this collective; names as in nccl-tests."),
    ] = None
    program: ProgramArgument = None

    @property
    def communicates_by(self) -> Literal["nccl", "gloo", "ccore"]:
        """Return the library of a command that a person starts."""
        return (self.library or LibraryName.nccl).value

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes, limited to the selected ones."""
        return load(self.inventory, self.limit).nodes


def by_hand(
    asked: Asked,
    launcher: RankLauncher,
    *,
    mpi: tuple[Family, int] = ("openmpi", 4),
    options: Callable[[RankPlacement], Mapping[str, str]] = lambda _: {},
    forward: Sequence[str] = (),
    secrets: str,
) -> LaunchPlan:
    """Return the launch that a person starts; print a note that ends with ``secrets`` if there are any.

    ``options`` returns the variables that the command line names, for the ranks and slots of the launch.
    """
    from clusterctl.launch import plan
    from clusterctl.launch.environment import misspelt
    from clusterctl.launch.readiness import assumed

    if asked.program and (asked.model or asked.collective or asked.batch_size):
        raise UsageError("a program cannot be combined with --model, --batch-size or --collective")
    nodes = asked.nodes()
    placement = place(nodes, asked.np, asked.slots)
    used = nodes[: len(placement.hosts)]
    found = plan.launch(
        [assumed(node, slots=asked.slots, mpi=mpi) for node in used],
        launcher=launcher,
        library=asked.communicates_by,
        np=placement.np,
        map_by="slot",
        program=tuple(asked.program or ()) or _program(used, asked),
        options=options(placement),
        forward=forward,
    )
    for note in misspelt(name for name, _ in found.env):
        console.talk(f"note: {note}")
    if found.secrets:
        console.talk(f"note: set {', '.join(name for name, _ in found.secrets)} {secrets}")
    if not asked.program and asked.model is not None:
        console.talk(
            "note: python on every node needs clusterctl installed; 'clusterctl bench --model' does not "
            "need that"
        )
    return found


def as_bench(
    asked: Asked, launcher_name: str, refused: Mapping[str, object], mpi: tuple[Family, int] = ("openmpi", 4)
) -> tuple[LaunchPlan, ...]:
    """Return the launches that ``bench`` plans for nodes that are as the inventory describes them.

    ``refused`` are the values of options that ``bench`` does not have.
    """
    from clusterctl.benchmarks.collective import program_of
    from clusterctl.cli.bench import options
    from clusterctl.cli.bench.request import requests_of
    from clusterctl.launch.environment import misspelt
    from clusterctl.launch.identity import SHOWN
    from clusterctl.launch.plan import plan
    from clusterctl.launch.readiness import assumed

    require_alone(
        "--bench",
        "prints the command of 'bench'",
        {**refused, "a program": bool(asked.program)},
        "-np, --slots, --library, --collective, --model, --batch-size",
    )
    requests = requests_of(
        options.What(asked.collective, asked.model),
        options.Ranks(
            asked.np, library=asked.library.value if asked.library else None, launcher=launcher_name
        ),
        options.SizeOptions(),
        options.Iterations(),
        options.TrainingOptions(batch_size=asked.batch_size),
    )
    launches: list[LaunchPlan] = []
    for request in requests:
        program = program_of(request.collective)
        answers = [assumed(node, slots=asked.slots, program=program, mpi=mpi) for node in asked.nodes()]
        chosen = plan(request, answers, SHOWN)
        for note in misspelt(chosen.given):
            console.talk(f"note: {note}")
        launches += chosen.launches()
    return tuple(launches)


def emit_bench(artifact: str, launches: Sequence[LaunchPlan], as_json: bool) -> None:
    """Print the launches of ``bench``."""
    more: dict[str, Any] = {"launches": launch_output.documents(launches)} if as_json else {}
    emit(artifact, launch_output.text(launches), as_json, **more)


def _program(nodes: Sequence[Node], asked: Asked) -> tuple[str, ...]:
    """Return the program of the ranks if none is given: the training workload, or a program of nccl-tests."""
    from clusterctl.artifacts import ranks
    from clusterctl.benchmarks.collective import COLLECTIVES, program_of, sibling

    if asked.model is not None and asked.collective is not None:
        raise UsageError("--model and --collective cannot be combined")
    if asked.collective is not None:
        collective = spelled(asked.collective, COLLECTIVES)
        if collective not in COLLECTIVES:
            hint = did_you_mean(asked.collective, COLLECTIVES)
            raise UsageError(f"unknown collective {asked.collective!r}", hint=hint)
        return (
            sibling(ranks.agreed(nodes, "all_reduce_perf") or "", program_of(collective)),
            *("-b", "8", "-e", "128M", "-f", "2", "-g", "1"),
        )
    if asked.model is None:
        raise UsageError(
            "no program to run was given", hint="give --model, --collective, or a program after '--'"
        )
    python = ranks.agreed(nodes, "python") or "python3"
    words = [python, "-m", "clusterctl.workloads", "training"]
    words += ["--model", asked.model, "--backend", asked.communicates_by]
    return (*words, "--batch-size", str(asked.batch_size)) if asked.batch_size is not None else tuple(words)
