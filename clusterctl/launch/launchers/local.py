"""Launch on this machine alone, without MPI: ``local_spawn.py`` by file path."""

from __future__ import annotations

from pathlib import Path

from clusterctl.launch.attribution import MarkedTags, Reader
from clusterctl.launch.base import LaunchPlan

SPAWNER = "local_spawn.py"


class LocalSpawn:
    """Start the ranks as children of one small program on one node."""

    name = "local"
    over_ssh = False
    by_slurm = False
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of the spawner's tags."""
        return MarkedTags(plan.mark)

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the spawner."""
        return {SPAWNER: Path(__file__).with_name(SPAWNER).read_bytes()}

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return the spawner's argv, with the environment before it."""
        return (
            "env",
            *(f"{name}={value}" for name, value in plan.env if value is not None),
            plan.python,
            f"{plan.directory}/{SPAWNER}",
            "--mark",
            plan.mark,
            "-np",
            str(plan.np),
            "--",
            *plan.program,
        )
