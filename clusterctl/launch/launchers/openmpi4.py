"""Launch with Open MPI 4: a hostfile with each node's ranks, and an ssh_config for ports, users and keys."""

from __future__ import annotations

from clusterctl.artifacts import hostfile
from clusterctl.artifacts.mpirun import mpirun_argv
from clusterctl.launch import ssh_mesh
from clusterctl.launch.attribution import Reader, XmlElements
from clusterctl.launch.base import LaunchPlan

HOSTFILE = "hostfile"


def hosts(plan: LaunchPlan) -> list[tuple[str, int]]:
    """Return the hosts and their ranks, under the names that mpirun on the first host uses."""
    # mpirun recognizes its own node only by that node's host name; with another name it would use ssh to reach it.
    first, *others = plan.placements
    return [(first.host, first.ranks), *((p.node, p.ranks) for p in others)]


def files(plan: LaunchPlan) -> dict[str, bytes]:
    """Return the files for mpirun of either version: the hostfile, and with several nodes the ssh_config."""
    found = {HOSTFILE: hostfile.render(hosts(plan)).encode()}
    if len(plan.placements) > 1:
        found[ssh_mesh.CONFIG_FILE] = ssh_mesh.config(plan).encode()
    return found


class OpenMpi4:
    """Launch with ``mpirun`` of Open MPI 4, which starts one daemon per other node over SSH."""

    name = "openmpi"
    over_ssh = True
    by_slurm = False
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of ``--xml``."""
        return XmlElements()

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the hostfile, and with several nodes the ssh_config."""
        return files(plan)

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return mpirun's argv, with interfaces and environment spelled out."""
        several = len(plan.placements) > 1
        return mpirun_argv(
            np=plan.np,
            program=plan.program,
            hosts=hosts(plan),
            hostfile=f"{plan.directory}/{HOSTFILE}",
            env=dict(plan.env),
            tcp_interface=plan.interface,
            mpirun=plan.mpirun,
            allow_root=plan.as_root,
            ssh_agent=("ssh", "-F", f"{plan.directory}/{ssh_mesh.CONFIG_FILE}") if several else None,
            # Only the launching node needs SSH to the others, not every node to every other.
            tree_spawn=not several,
            map_by=plan.map_by,
            xml_output=True,
            # A node that loses power closes no connection: probe idle connections after 10 s instead of 5 minutes.
            extra=_KEEPALIVE if several else (),
        )


_KEEPALIVE = (
    "-mca", "oob_tcp_keepalive_time", "10",
    "-mca", "oob_tcp_keepalive_intvl", "5",
    "-mca", "oob_tcp_keepalive_probes", "3",
)  # fmt: skip
