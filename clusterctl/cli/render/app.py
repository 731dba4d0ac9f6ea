"""``render``: print artifacts from the inventory, without contacting a node."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from clusterctl.cli import console
from clusterctl.cli.image.build import dockerfile
from clusterctl.cli.option_groups import with_groups
from clusterctl.cli.options import InventoryOption, JsonOption, LimitOption, RunsOption, require_image
from clusterctl.cli.render.jobs import mpijob, sbatch, slurm_healthcheck
from clusterctl.cli.render.launchers import mpiexec, srun, torchrun
from clusterctl.cli.render.mpirun import mpirun
from clusterctl.cli.render.output import NpOption, SlotsOption, emit, load, place
from clusterctl.errors import ArtifactError
from clusterctl.rundir import default_root
from clusterctl.text import user_files
from clusterctl.text.grouping import grouped

MAX_BYTES = 4 << 20

app = typer.Typer(
    help="Print launch commands and configuration files.",
    no_args_is_help=True,
)


class DockerStyle(str, Enum):
    """Name the styles of the docker run command: order and spelling of its flags."""

    default = "default"
    taco = "taco"
    accl = "accl"


class HostfileDialect(str, Enum):
    """Name the hostfile formats."""

    openmpi = "openmpi"
    mpich = "mpich"


class NodeOrderName(str, Enum):
    """Name the orders of the nodes of a hostfile."""

    inventory = "inventory"
    topology = "topology"


app.command("mpirun")(with_groups(mpirun))
app.command("mpiexec")(with_groups(mpiexec))
app.command("torchrun")(with_groups(torchrun))
app.command("srun")(with_groups(srun))
app.command("sbatch")(sbatch)
app.command("mpijob")(mpijob)
app.command("slurm-healthcheck")(slurm_healthcheck)
app.command("dockerfile")(dockerfile)


@app.command("docker-run")
def docker_run(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Image instead of the inventory's.")
    ] = None,
    style: Annotated[
        DockerStyle, typer.Option(help="Order and spelling of the flags.")
    ] = DockerStyle.default,
    rendezvous_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Set the rendezvous variables (MASTER_ADDR, RANK, ...) in the containers."
        ),
    ] = None,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Command to run in the container, after --.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print docker run commands.

    A command that is the same on all nodes is printed once. Otherwise the names of its nodes precede each command.
    """
    from clusterctl.artifacts import shell
    from clusterctl.artifacts.docker_run import docker_run_argv, rendezvous, with_cluster_file
    from clusterctl.artifacts.ranks import slots_of
    from clusterctl.text.secret.scrub import names_a_secret

    require_image(image)
    nodes = load(inventory, limit).nodes
    lines: list[tuple[str, tuple[str, ...]]] = []
    for rank, node in enumerate(nodes):
        container = node.container if image is None else node.container.model_copy(update={"image": image})
        if node.requirements.cluster_file.content is not None:
            # bootstrap writes the file, so it exists where the container starts.
            container = with_cluster_file(container, node.requirements.cluster_file.path)
        env, name = {}, container.name
        if rendezvous_port is not None:
            env = rendezvous(
                master_address=nodes[0].address,
                master_port=rendezvous_port,
                node_rank=rank,
                nodes=len(nodes),
                ranks_per_node=slots_of(node),
            )
            name = f"{name}-{rank}" if name is not None else None
        argv = docker_run_argv(container, name=name, env=env, command=command or None, style=style.value)
        lines.append((node.name, argv))
    private = sorted(
        {k for node in nodes for k, value in node.container.env.items() if names_a_secret(k, value)}
    )
    if private:
        console.talk(
            f"note: set {', '.join(private)} where docker runs: secrets are not printed, "
            "'-e NAME' passes them to the container"
        )
    text = _folded([(name, shell.line(argv)) for name, argv in lines])
    documents = [{"name": name, "argv": list(argv), "text": shell.line(argv)} for name, argv in lines]
    emit("docker-run", text, json, argv=lines[0][1], nodes=documents)


@app.command("hostfile")
def hostfile(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    np: NpOption = None,
    slots: SlotsOption = None,
    dialect: Annotated[HostfileDialect, typer.Option(help="Hostfile format.")] = HostfileDialect.openmpi,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Print the address first, then the name.")
    ] = False,
    order: Annotated[
        NodeOrderName,
        typer.Option(
            help="Order of the nodes; topology: nodes with a fast network between them are neighbours, and slow nodes "
            "are last, by the latest runs of locate and bench."
        ),
    ] = NodeOrderName.inventory,
    runs: RunsOption = None,
    comment: Annotated[str | None, typer.Option(help="Comment for the first line.")] = None,
    lint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Check this hostfile for typing errors instead.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the hostfile of Open MPI or MPICH."""
    from clusterctl.artifacts import hostfile as artifact

    kind = artifact.Dialect(dialect.value)
    if lint is not None:
        _lint(lint, json, artifact.lint(_read(lint), kind))
        return
    nodes = load(inventory, limit).nodes
    if order is NodeOrderName.topology:
        from clusterctl.results import node_order

        found = node_order.by_topology([node.name for node in nodes], runs or default_root(inventory))
        nodes = tuple(sorted(nodes, key=lambda node: found.names.index(node.name)))
        comment = found.comment if comment is None else f"{comment}\n{found.comment}"
    placement = place(nodes, np, slots)
    table = {node.name: node.address for node in nodes} if addresses else None
    text = artifact.render(placement.hosts, dialect=kind, addresses=table, comment=comment)
    emit("hostfile", text, json, hosts=[{"name": n, "slots": s} for n, s in placement.hosts])


@app.command("ssh-config")
def ssh_config(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    known_hosts: Annotated[
        str | None, typer.Option(metavar="FILE", help="UserKnownHostsFile for all nodes.")
    ] = None,
    include: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another ssh_config to include, for other hosts.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print an ssh_config with a Host block for each node."""
    from clusterctl.artifacts import ssh_config as artifact

    text = artifact.render(load(inventory, limit).nodes, known_hosts=known_hosts, include=include)
    emit("ssh-config", text, json)


def _folded(lines: Sequence[tuple[str, str]]) -> str:
    """Return each distinct line once, with the names of its nodes if there are several lines."""
    from clusterctl.inventory import nodeset

    by_text = grouped((text, name) for name, text in lines)
    if len(by_text) == 1:
        return lines[0][1]
    return "\n".join(f"# {nodeset.fold(names)}\n{text}" for text, names in by_text.items())


def _read(path: Path) -> str:
    try:
        return user_files.read(path, MAX_BYTES, pipes=True).decode("utf-8")
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be read: {error.strerror}", hint=user_files.hint_of(error)
        ) from None
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} cannot be read as UTF-8 text: {error}") from None


def _lint(path: Path, as_json: bool, findings: Sequence[Any]) -> None:
    text = (
        "\n".join(f"{path}:{finding.line}: {finding.message}" for finding in findings)
        or f"{path}: no findings"
    )
    emit("hostfile", text, as_json, findings=[{"line": f.line, "message": f.message} for f in findings])
    if findings:
        raise typer.Exit(1)
