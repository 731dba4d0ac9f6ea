"""Launch with srun: Slurm starts the ranks, without SSH between nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterctl.artifacts import enroot, pyxis
from clusterctl.artifacts.words import check, variable
from clusterctl.errors import ArtifactError
from clusterctl.inventory import nodeset
from clusterctl.launch.attribution import MarkedTags, Reader
from clusterctl.launch.base import LaunchPlan

HOSTFILE = "slurm_hosts"
OUTPUT = "srun_output.sh"


class Srun:
    """Launch a Slurm job step in the current allocation, else in a new one that srun requests."""

    name = "srun"
    over_ssh = False
    by_slurm = True
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of the tags into which the script converts srun's labels."""
        return MarkedTags(plan.mark)

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the list of nodes by rank, and the script that separates srun's two outputs."""
        return {
            HOSTFILE: "".join(f"{node}\n" for node in plan.node_of_rank).encode(),
            OUTPUT: Path(__file__).with_name(OUTPUT).read_bytes().replace(b"@MARK@", plan.mark.encode()),
        }

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return srun's argv, behind that script unless a person starts it."""
        env = dict(plan.env) if plan.by_hand else plan.marked_env
        # --export separates variables by commas: a value with a comma is set in srun's own environment.
        commas = {name: value for name, value in env.items() if value is not None and "," in value}
        own = () if plan.by_hand else (f"SLURM_HOSTFILE={plan.directory}/{HOSTFILE}",)
        words = [*own, *(f"{name}={value}" for name, value in commas.items())]
        options, starting = _in_image(plan, env)
        return (
            *(("env", *words) if words else ()),
            *(() if plan.by_hand else ("sh", f"{plan.directory}/{OUTPUT}")),
            *srun_argv(
                np=plan.np,
                program=(*starting, *plan.program),
                nodes=len(plan.placements),
                node_list=[(p.node, p.ranks) for p in plan.placements] if plan.by_hand else (),
                env={name: None if name in commas else value for name, value in env.items()},
                # Slurm's time limit only backs up clusterctl's deadline.
                time_limit_minutes=None if plan.by_hand else math.ceil(plan.timeout_s / 60) + 2,
                options=options,
            ),
        )


def _in_image(plan: LaunchPlan, env: Mapping[str, str | None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options of srun, and the words before the program, that start ranks in the image.

    The image gets the launch directory beside its volumes.
    """
    if plan.container is None:
        return (), ()
    volumes = plan.container.volumes
    if not plan.by_hand:
        volumes = (*volumes, f"{plan.directory}:{plan.directory}")
    names = (*env, *(name for name, _ in plan.secrets))
    container = plan.container.model_copy(update={"volumes": volumes})
    if plan.by_enroot:
        return (), enroot.words(container, names)
    return tuple(pyxis.options(container, names)), ()


def srun_argv(
    *,
    np: int,
    program: Sequence[str],
    nodes: int,
    node_list: Sequence[tuple[str, int]] = (),
    env: Mapping[str, str | None] | None = None,
    time_limit_minutes: int | None = None,
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start ``np`` tasks of ``program`` on Slurm's nodes, inside an allocation or outside.

    The file in SLURM_HOSTFILE has the node of each task, one per line (srun(1), ``arbitrary``). With ``node_list``,
    (Slurm's name, tasks), Slurm places the same number of tasks on each of these nodes instead. ``--export`` passes
    variables to the tasks: with their value, or, for the value None, from srun's own environment. PMI is not used: the
    rendezvous is MASTER_ADDR or CCORE_ROOT_ADDR. ``options`` are those of plugins. Every line of output begins with the
    task's number. Raise ArtifactError for values that ``--export`` cannot hold.
    """
    check(np, program, ())
    if nodes < 1:
        raise ArtifactError("no node is selected for srun", hint="widen --limit")
    argv = ["srun", "--ntasks", str(np), "--nodes", str(nodes), *_placed(node_list)]
    argv += ["--kill-on-bad-exit=1", "--mpi=none", "--cpu-bind=none", "--input=none", "--label"]
    if time_limit_minutes is not None:
        argv += ["--time", str(time_limit_minutes)]
    if env:
        argv += ["--export", ",".join(("ALL", *(_exported(name, value) for name, value in env.items())))]
    return (*argv, *options, *program)


def _placed(node_list: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    if not node_list:
        return ("--distribution", "arbitrary")
    counts = {count for _, count in node_list}
    if len(counts) > 1:
        raise ArtifactError(
            "one srun command places the same number of ranks on every node, but these nodes have different numbers",
            hint="use clusterctl render sbatch, whose script places every rank, or select equal nodes with --limit",
        )
    names = nodeset.fold(name for name, _ in node_list)
    return ("--nodelist", names, "--ntasks-per-node", str(counts.pop()), "--distribution", "block")


def _exported(name: str, value: str | None) -> str:
    word = variable(name, value)
    if value is not None and "," in value:
        raise ArtifactError(
            f"variable {name} contains a comma, which srun --export uses as separator",
            hint="set the variable in the environment of srun",
        )
    return word
