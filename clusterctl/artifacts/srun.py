"""Build srun's command line: ranks are tasks of a job step, placed on nodes by a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.artifacts.mpirun import check, variable
from clusterctl.errors import ArtifactError


def srun_argv(
    *,
    np: int,
    program: Sequence[str],
    nodes: int,
    env: Mapping[str, str | None] | None = None,
    srun: str = "srun",
    time_limit_minutes: int | None = None,
    label: bool = False,
) -> tuple[str, ...]:
    """Return the words that start ``np`` tasks of ``program`` on Slurm's nodes, inside an allocation or outside.

    The file in SLURM_HOSTFILE has the node of each task, one per line (srun(1), ``arbitrary``). ``--export`` passes
    variables to the tasks: with their value, or, for the value None, from srun's own environment. PMI is not used: the
    rendezvous is MASTER_ADDR or CCORE_ROOT_ADDR. ``label`` precedes every line with the task's number. Raise
    ArtifactError for values that ``--export`` cannot hold.
    """
    check(np, program, ())
    if nodes < 1:
        raise ArtifactError("no node is selected for srun", hint="widen --limit")
    argv = [
        srun, "--ntasks", str(np), "--nodes", str(nodes), "--distribution", "arbitrary", "--kill-on-bad-exit=1",
        "--mpi=none", "--cpu-bind=none", "--input=none",
    ]  # fmt: skip
    if label:
        argv.append("--label")
    if time_limit_minutes is not None:
        argv += ["--time", str(time_limit_minutes)]
    if env:
        argv += ["--export", ",".join(("ALL", *(_exported(name, value) for name, value in env.items())))]
    return (*argv, *program)


def _exported(name: str, value: str | None) -> str:
    word = variable(name, value)
    if value is not None and "," in value:
        raise ArtifactError(
            f"variable {name} contains a comma, which srun --export uses as separator",
            hint="set the variable in the environment of srun",
        )
    return word
