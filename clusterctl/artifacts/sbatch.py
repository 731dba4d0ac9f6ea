"""Render a batch script for Slurm: the allocation as directives, and one srun that starts all ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from clusterctl.artifacts import enroot, pyxis, shell
from clusterctl.artifacts.words import check, variable
from clusterctl.errors import ArtifactError
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import ContainerSettings

_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "CCORE_ROOT_ADDR", "CCORE_ROOT_PORT")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def sbatch_script(
    *,
    hosts: Sequence[tuple[str, int]],
    np: int,
    program: Sequence[str],
    env: Mapping[str, str | None] | None = None,
    job_name: str = "clusterctl",
    gpus_per_node: int | None = None,
    time_minutes: int = 60,
    partition: str | None = None,
    exclusive: bool = True,
    container: ContainerSettings | None = None,
    by_enroot: bool = False,
) -> str:
    """Return the text for ``sbatch``: ``np`` ranks of ``program`` on ``hosts``, (Slurm's NodeName, ranks) in order.

    The rendezvous is at Slurm's address of the allocation's first node, on ports derived from the job's number. A
    variable with the value None comes from the environment of sbatch. ``container``: ranks run in its image with its
    volumes, by the options of Pyxis or, with ``by_enroot``, by enroot itself. Raise ArtifactError for values that Slurm
    or what starts the image would reject or misread.
    """
    check(np, program, hosts)
    if not hosts:
        raise ArtifactError("no node is selected for the batch script", hint="widen --limit")
    if not _NAME.fullmatch(job_name):
        raise ArtifactError(
            f"{job_name!r} is not a valid job name", hint="use letters, digits, '_', '.' and '-'"
        )
    counts = _counts(hosts, np)
    alike = len(set(counts)) == 1
    directives = [
        f"--job-name={job_name}",
        f"--nodelist={nodeset.fold(name for name, _ in hosts)}",
        f"--nodes={len(hosts)}",
        f"--ntasks={np}",
    ]
    if alike:
        directives.append(f"--ntasks-per-node={counts[0]}")
    if gpus_per_node:
        directives.append(f"--gres=gpu:{gpus_per_node}")
    if partition is not None:
        directives.append(f"--partition={partition}")
    if exclusive:
        directives.append("--exclusive")
    directives += [f"--time={time_minutes}", f"--output={job_name}-%j.log"]
    lines = ["#!/bin/bash", *(f"#SBATCH {directive}" for directive in directives), "set -euo pipefail", ""]
    for name, value in (env or {}).items():
        variable(name, value)
        if value is not None:
            lines.append(f"export {shell.line(('export', f'{name}={value}')).removeprefix('export ')}")
    # Rank 0 runs on the first node in Slurm's order, or on the first one of the file that places the tasks.
    first = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)' if alike else hosts[0][0]
    lines += [
        f"first={first}",
        """MASTER_ADDR=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p')""",
        "MASTER_PORT=$((20000 + SLURM_JOB_ID % 6000))",
        "export MASTER_ADDR MASTER_PORT CCORE_ROOT_ADDR=$MASTER_ADDR CCORE_ROOT_PORT=$((MASTER_PORT + 6000))",
        "",
    ]
    options = ["srun", "--mpi=none", "--kill-on-bad-exit=1", "--cpu-bind=none", "--label"]
    if not alike:
        # Slurm would balance uneven counts, so a file sets where every task runs (srun(1), arbitrary).
        tasks = " ".join(name for (name, _), count in zip(hosts, counts, strict=True) for _ in range(count))
        lines += [
            "SLURM_HOSTFILE=$(mktemp)",
            """trap 'rm -f "$SLURM_HOSTFILE"' EXIT""",
            f"printf '%s\\n' {tasks} >\"$SLURM_HOSTFILE\"",
            "export SLURM_HOSTFILE",
        ]
        options.append("--distribution=arbitrary")
    else:
        options.append("--distribution=block")
    names = (*(env or {}), *_RENDEZVOUS)
    if container is not None:
        options += enroot.words(container, names) if by_enroot else pyxis.options(container, names)
    return "\n".join((*lines, shell.line((*options, *program)))) + "\n"


def _counts(hosts: Sequence[tuple[str, int]], np: int) -> list[int]:
    left = np
    counts = []
    for _, slots in hosts:
        counts.append(min(slots, left))
        left -= counts[-1]
    return counts
