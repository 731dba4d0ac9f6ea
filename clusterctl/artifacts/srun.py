"""srun's command line: ranks as tasks of a job step, each on the node that a file names for it."""

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
    """Return the words that start ``np`` tasks of ``program`` on so many of Slurm's nodes.

    Inside an allocation or outside. Which task runs where stands in the file that SLURM_HOSTFILE names, a line per
    task (srun(1), ``arbitrary``). Variables go to tasks by ``--export``: with a value, or, where it is None, from
    srun's own environment. No PMI is asked for: ranks meet by MASTER_ADDR or CCORE_ROOT_ADDR. ``label`` puts the
    task's number before every line. Raise ArtifactError for values that ``--export`` cannot hold.
    """
    check(np, program, ())
    if nodes < 1:
        raise ArtifactError("srun needs a node", hint="widen --limit")
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
            f"the variable {name} holds a comma, at which srun --export divides",
            hint="set it where srun runs",
        )
    return word
