"""Launch with Open MPI 5: hostfile and ssh_config of Open MPI 4, with PRRTE's option names."""

from __future__ import annotations

from clusterctl.artifacts.mpirun5 import mpirun5_argv
from clusterctl.launch import ssh_mesh
from clusterctl.launch.attribution import LeadingTags, Reader
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.launchers import openmpi4


class OpenMpi5:
    """Launch with ``mpirun`` of Open MPI 5, whose daemons (prted) start over SSH."""

    name = "openmpi"
    over_ssh = True
    by_slurm = False
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of ``--output tag``, which holds back an incomplete line until the rank completes it."""
        return LeadingTags()

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the hostfile, and with several nodes the ssh_config."""
        return openmpi4.files(plan)

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return mpirun's argv, with interfaces and environment spelled out."""
        several = len(plan.placements) > 1
        return mpirun5_argv(
            np=plan.np,
            program=plan.program,
            hosts=openmpi4.hosts(plan),
            hostfile=f"{plan.directory}/{openmpi4.HOSTFILE}",
            env=plan.marked_env,
            tcp_interface=plan.interface,
            mpirun=plan.mpirun,
            allow_root=plan.as_root,
            ssh_agent=("ssh", "-F", f"{plan.directory}/{ssh_mesh.CONFIG_FILE}") if several else None,
            tree_spawn=not several,
            map_by=plan.map_by,
            tag_output=True,
        )
