"""Launch with srun: Slurm starts the ranks, without SSH between nodes."""

from __future__ import annotations

import math
from pathlib import Path

from clusterctl.artifacts.srun import srun_argv
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
        """Return srun's argv behind that script."""
        hidden = {name: None for name, value in plan.marked_env.items() if value is None or "," in value}
        commas = {
            name: value for name, value in plan.marked_env.items() if value is not None and "," in value
        }
        return (
            "env",
            f"SLURM_HOSTFILE={plan.directory}/{HOSTFILE}",
            *(f"{name}={value}" for name, value in commas.items()),
            "sh",
            f"{plan.directory}/{OUTPUT}",
            *srun_argv(
                np=plan.np,
                program=plan.program,
                nodes=len(plan.placements),
                env={**plan.marked_env, **hidden},
                # Slurm's time limit only backs up clusterctl's deadline.
                time_limit_minutes=math.ceil(plan.timeout_s / 60) + 2,
                label=True,
            ),
        )
