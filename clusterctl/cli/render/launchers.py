"""``render torchrun``, ``render mpiexec`` and ``render srun``: print the command of another launcher than Open MPI."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli.options import JsonOption
from clusterctl.cli.render.launch import Asked, as_bench, by_hand, emit_bench
from clusterctl.cli.render.output import emit


def torchrun(
    asked: Asked,
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on which node 0 listens.")] = 29500,
    no_python: Annotated[
        bool, typer.Option("--no-python", help="The program is not a Python script.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print the torchrun command of each node.

    Each command sets the inventory's variables. The rendezvous is static, at the first node's address.
    """
    from clusterctl.artifacts import shell
    from clusterctl.launch.launchers.torchrun import Torchrun

    if asked.bench:
        refused = {"--port": port != 29500, "--no-python": no_python}
        emit_bench("torchrun", as_bench(asked, "torchrun", refused), json)
        return
    # The program of --model and --collective is a command, not a script.
    launcher = Torchrun(port, any_program=no_python or not asked.program)
    plan = by_hand(asked, launcher, secrets="where torchrun is called: secrets are not printed")
    lines = launcher.commands(plan)
    text = "\n".join(f"# {name}\n{shell.line(argv)}" for name, argv in lines)
    documents = [{"name": name, "argv": list(argv), "text": shell.line(argv)} for name, argv in lines]
    emit("torchrun", text, json, nodes=documents)


def mpiexec(asked: Asked, json: JsonOption = False) -> None:
    """Print MPICH's mpiexec command."""
    from clusterctl.artifacts import shell
    from clusterctl.launch.launchers.hydra import Hydra

    if asked.bench:
        emit_bench("mpiexec", as_bench(asked, "mpich", {}, ("mpich", 4)), json)
        return
    secrets = "where mpiexec runs: secrets are not printed, '-genvlist' passes them to the ranks"
    plan = by_hand(asked, Hydra(), mpi=("mpich", 4), secrets=secrets)
    emit("mpiexec", shell.line(plan.argv), json, argv=plan.argv)


def srun(asked: Asked, json: JsonOption = False) -> None:
    """Print Slurm's srun command.

    The inventory must use the node names of Slurm, and every node gets the same number of ranks.
    """
    from clusterctl.artifacts import shell
    from clusterctl.launch.launchers.srun import Srun

    if asked.bench:
        emit_bench("srun", as_bench(asked, "srun", {}), json)
        return
    secrets = "where srun runs: secrets are not printed, '--export' passes them to the ranks"
    plan = by_hand(asked, Srun(), secrets=secrets)
    emit("srun", shell.line(plan.argv), json, argv=plan.argv)
