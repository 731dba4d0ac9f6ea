"""``render sbatch``, ``mpijob`` and ``slurm-healthcheck``: print launches and checks for Slurm and Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl import resources
from clusterctl.artifacts import shell
from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.options import InventoryOption, JsonOption, LimitOption, require_image
from clusterctl.cli.render.launch import LibraryName, LibraryOption, ProgramArgument
from clusterctl.cli.render.output import NpOption, SlotsOption, emit, load, place
from clusterctl.documents.accept import Tier
from clusterctl.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterctl.inventory.model import Node


def _program(program: list[str] | None) -> tuple[str, ...]:
    if not program:
        raise UsageError("no program to run was given", hint="give a program after '--'")
    return tuple(program)


def _variables(
    nodes: Sequence[Node], library: LibraryName | None, np: int, *, hint: str, own_network: bool = False
) -> dict[str, str | None]:
    """Return the environment variables of all ranks; for secrets only the names, with a note on stderr.

    ``own_network``: leave out the network interface, because a pod with its own network lacks the node's interfaces.
    """
    from clusterctl.artifacts import ranks
    from clusterctl.launch import environment

    if not own_network:
        ranks.agreed(nodes, "socket_ifname")
    settings = environment.Communication(
        library=(library or LibraryName.nccl).value,
        interfaces=None if own_network else nodes[0].interfaces,
        rdma_devices=ranks.agreed(nodes, "rdma_devices"),
    )
    found = environment.build(free=ranks.agreed_env(nodes), settings=environment.variables(settings, np=np))
    if found.secrets:
        private = ", ".join(name for name, _ in found.secrets)
        console.talk(f"note: secrets are not printed: {hint} ({private})")
    return dict(found.variables)


def sbatch(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    np: NpOption = None,
    slots: SlotsOption = None,
    library: LibraryOption = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name.")] = "clusterctl",
    partition: Annotated[str | None, typer.Option(metavar="PARTITION", help="Slurm partition.")] = None,
    time_minutes: Annotated[int, typer.Option("--time", metavar="MINUTES", min=1, help="Time limit.")] = 60,
    exclusive: Annotated[bool, typer.Option(help="Allocate whole nodes.")] = True,
    container: Annotated[
        str | None,
        typer.Option(
            "--container",
            metavar="IMAGE",
            help="Run the ranks in this image by Pyxis, with the volumes of the inventory's container; an image or a "
            "squashfs file.",
        ),
    ] = None,
    enroot: Annotated[
        bool,
        typer.Option(
            "--enroot",
            help="Start the image of --container by enroot itself, for a Slurm without Pyxis; IMAGE is then a squashfs "
            "file that all nodes have.",
        ),
    ] = False,
    program: ProgramArgument = None,
    json: JsonOption = False,
) -> None:
    """Print a batch script for Slurm.

    The inventory must use the node names of Slurm.
    """
    from clusterctl.artifacts import ranks
    from clusterctl.artifacts.sbatch import sbatch_script

    require_image(container, "--container")
    if enroot and container is None:
        raise UsageError(
            "--enroot needs --container",
            hint="add --container FILE.sqsh, or leave out --enroot",
        )
    nodes = load(inventory, limit).nodes
    placement = place(nodes, np, slots)
    used = nodes[: len(placement.hosts)]
    gpus = ranks.agreed(used, "gpus")
    text = sbatch_script(
        hosts=placement.hosts, np=placement.np, program=_program(program),
        env=_variables(used, library, placement.np, hint="set them where sbatch is called"), job_name=name,
        gpus_per_node=int(gpus) if gpus else None, time_minutes=time_minutes, partition=partition,
        exclusive=exclusive,
        container=None if container is None else used[0].container.model_copy(update={"image": container}),
        by_enroot=enroot,
    )  # fmt: skip
    emit("sbatch", text.rstrip("\n"), json)


def mpijob(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    slots: SlotsOption = None,
    library: LibraryOption = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name.")] = "clusterctl",
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Image instead of the inventory's.")
    ] = None,
    rdma_resource: Annotated[
        str | None, typer.Option(metavar="RESOURCE", help="Resource name of the RDMA device plugin.")
    ] = None,
    program: ProgramArgument = None,
    json: JsonOption = False,
) -> None:
    """Print an MPIJob for Kubernetes (kubeflow.org/v2beta1)."""
    from clusterctl.artifacts import mpijob as artifact
    from clusterctl.artifacts import ranks
    from clusterctl.launch.launchers.openmpi import mpirun_argv

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
    variables = _variables(nodes, library, placement.np, hint="put them into a Secret", own_network=True)
    said = {name: value for name, value in variables.items() if value is not None}
    command = mpirun_argv(np=placement.np, program=_program(program), env=said, output="tagged")
    text = artifact.mpijob(
        name=name, workers=len(nodes), ranks_per_worker=counts.pop(), command=command,
        container=container, gpus=int(gpus) if gpus else None, rdma_resource=rdma_resource,
    )  # fmt: skip
    emit("mpijob", text.rstrip("\n"), json)


def slurm_healthcheck(
    *,
    tier: Annotated[
        Tier, typer.Option("--tier", help="Run the rows of this tier and of the cheaper ones.")
    ] = Tier.SANITY,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ROW,..", help="Only these rows.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="ROW,..", help="All rows except these.")
    ] = None,
    json: cli.JsonOption = False,
) -> None:
    """Print a script for Slurm's Prolog and HealthCheckProgram.

    It runs accept on the node itself and drains a node on which a row failed. slurmd allows 60 seconds.
    """
    from clusterctl.acceptance.catalog import ROWS, chosen

    wanted, unwanted = cli.names(only), cli.names(skip)
    chosen(ROWS, tier, wanted, unwanted or ())
    words = ["--tier", tier.value] if wanted is None else ["--only", ",".join(wanted)]
    words += ["--skip", ",".join(unwanted)] if unwanted else []
    script = resources.text("templates", "slurm", "healthcheck.sh").replace(
        "@WORDS@", shell.line(tuple(words))
    )
    emit("slurm-healthcheck", script, json)
