"""``render torchrun``, ``render sbatch`` and ``render mpijob``: print launches for torchrun, Slurm and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.options import InventoryOption, JsonOption, LimitOption, require_image
from clusterctl.cli.render.mpirun import Library
from clusterctl.cli.render.output import NpOption, SlotsOption, emit, load, place
from clusterctl.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterctl.inventory.model import Node

ProgramArgument = Annotated[
    list[str] | None, typer.Argument(metavar="PROGRAM", help="Program of the ranks, after --.")
]
LibraryOption = Annotated[Library, typer.Option(help="The collective library.")]


def _program(program: list[str] | None) -> tuple[str, ...]:
    if not program:
        raise UsageError("no program to run was given", hint="give a program after '--'")
    return tuple(program)


def _variables(
    nodes: Sequence[Node], library: Library, np: int, *, hint: str, own_network: bool = False
) -> dict[str, str | None]:
    """Return the environment variables of all ranks; for secrets only the names, with a note on stderr.

    ``own_network``: leave out the network interface, because a pod with its own network lacks the node's interfaces.
    """
    from clusterctl.artifacts import env, ranks
    from clusterctl.secret.scrub import names_a_secret

    settings = env.Communication(
        library=library.value,
        socket_ifname=None if own_network else ranks.agreed(nodes, "socket_ifname"),
        rdma_devices=ranks.agreed(nodes, "rdma_devices"),
        extra=ranks.agreed_env(nodes),
        forward=(),
    )
    found = env.variables(settings, np=np)
    private = [name for name, value in found.items() if value is not None and names_a_secret(name, value)]
    if private:
        console.talk(f"note: secrets are not printed: {hint} ({', '.join(private)})")
    return {name: None if name in private else value for name, value in found.items()}


def torchrun(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    np: NpOption = None,
    slots: SlotsOption = None,
    library: LibraryOption = Library.nccl,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on which node 0 listens.")] = 29500,
    no_python: Annotated[
        bool, typer.Option("--no-python", help="The program is not a Python script.")
    ] = False,
    program: ProgramArgument = None,
    json: JsonOption = False,
) -> None:
    """Print the torchrun command of each node.

    Each command sets the inventory's variables. The rendezvous is static, at the first node's address.
    """
    from clusterctl.artifacts import shell
    from clusterctl.artifacts.torchrun import torchrun_argv

    nodes = load(inventory, limit).nodes
    placement = place(nodes, np, slots)
    words, left = _program(program), placement.np
    used = nodes[: len(placement.hosts)]
    variables = _variables(used, library, placement.np, hint="set them where torchrun is called")
    said = [f"{key}={value}" for key, value in variables.items() if value is not None]
    lines = []
    for index, (name, room) in enumerate(placement.hosts):
        here = min(room, left)
        left -= here
        argv = torchrun_argv(
            nodes=len(placement.hosts), node_rank=index, ranks_here=here, master_address=nodes[0].address,
            master_port=port, program=words, any_program=no_python,
        )  # fmt: skip
        lines.append((name, ("env", *said, *argv) if said else argv))
    text = "\n".join(f"# {name}\n{shell.line(argv)}" for name, argv in lines)
    documents = [{"name": name, "argv": list(argv), "text": shell.line(argv)} for name, argv in lines]
    emit("torchrun", text, json, nodes=documents)


def sbatch(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    np: NpOption = None,
    slots: SlotsOption = None,
    library: LibraryOption = Library.nccl,
    name: Annotated[str, typer.Option(help="The job's name.")] = "clusterctl",
    partition: Annotated[str | None, typer.Option(help="Slurm partition.")] = None,
    time_minutes: Annotated[int, typer.Option("--time", min=1, help="Time limit in minutes.")] = 60,
    exclusive: Annotated[bool, typer.Option(help="Allocate whole nodes.")] = True,
    program: ProgramArgument = None,
    json: JsonOption = False,
) -> None:
    """Print a batch script for Slurm.

    The inventory must use the node names of Slurm.
    """
    from clusterctl.artifacts import ranks
    from clusterctl.artifacts.sbatch import sbatch_script

    nodes = load(inventory, limit).nodes
    placement = place(nodes, np, slots)
    used = nodes[: len(placement.hosts)]
    gpus = ranks.agreed(used, "gpus")
    text = sbatch_script(
        hosts=placement.hosts, np=placement.np, program=_program(program),
        env=_variables(used, library, placement.np, hint="set them where sbatch is called"), job_name=name,
        gpus_per_node=int(gpus) if gpus else None, time_minutes=time_minutes, partition=partition,
        exclusive=exclusive,
    )  # fmt: skip
    emit("sbatch", text.rstrip("\n"), json)


def mpijob(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    slots: SlotsOption = None,
    library: LibraryOption = Library.nccl,
    name: Annotated[str, typer.Option(help="The job's name.")] = "clusterctl",
    image: Annotated[str | None, typer.Option(help="Image instead of the inventory's.")] = None,
    rdma_resource: Annotated[
        str | None, typer.Option(help="Resource name of the RDMA device plugin.")
    ] = None,
    program: ProgramArgument = None,
    json: JsonOption = False,
) -> None:
    """Print an MPIJob for Kubernetes (kubeflow.org/v2beta1)."""
    from clusterctl.artifacts import mpijob as artifact
    from clusterctl.artifacts import ranks

    require_image(image)
    nodes = load(inventory, limit).nodes
    placement = place(nodes, None, slots)
    counts = {count for _, count in placement.hosts}
    if len(counts) > 1:
        raise ArtifactError(
            "an MPIJob requires the same number of ranks in every worker, but slots differ between nodes",
            hint="select nodes with equal slots with --limit",
        )
    container = nodes[0].container
    if image is not None:
        container = container.model_copy(update={"image": image})
    gpus = ranks.agreed(nodes, "gpus")
    text = artifact.mpijob(
        name=name, workers=len(nodes), ranks_per_worker=counts.pop(), program=_program(program),
        container=container, gpus=int(gpus) if gpus else None, rdma_resource=rdma_resource,
        env=_variables(nodes, library, placement.np, hint="put them into a Secret", own_network=True),
    )  # fmt: skip
    emit("mpijob", text.rstrip("\n"), json)
