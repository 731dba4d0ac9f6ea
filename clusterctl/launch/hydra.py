"""MPICH: Hydra's mpiexec, with the same ssh_config as the others behind a remote shell of our own.

What Hydra does not do itself, small scripts do: ``hydra_ssh.sh`` is its remote shell, ``hydra_output.sh`` stands
between it and us, and another between it and every rank.
"""

from __future__ import annotations

from pathlib import Path

from clusterctl.artifacts import hostfile
from clusterctl.artifacts.hostfile import Dialect
from clusterctl.artifacts.mpiexec import mpiexec_argv
from clusterctl.launch import openmpi4, ssh_mesh
from clusterctl.launch.attribution import MarkedTags, Reader
from clusterctl.launch.base import TOKEN_VARIABLE, LaunchPlan

HOSTFILE = "hostfile"
SSH = "hydra_ssh.sh"
OUTPUT = "hydra_output.sh"
_EVERYWHERE = ("localhost", "127.0.0.1", "::1")
# A rank that ends with a status ends no other under Hydra, which does not say whose it was either, but one that dies
# of a signal does. Inline, because it runs on every node.
_RANK = """\
"$@" &
child=$!
trap 'kill -TERM $child' TERM
wait $child
code=$?
[ $code -eq 0 ] && exit 0
echo "hydra_rank: rank $PMI_RANK on $(uname -n) exited with status $code" >&2
kill -KILL $$"""


class Hydra:
    """``mpiexec`` of MPICH, which starts one proxy per node over SSH."""

    name = "mpich"
    over_ssh = True
    by_slurm = False
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of ``-prepend-pattern``."""
        return MarkedTags(plan.mark)

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the hostfile, the scripts, and with several nodes the ssh_config."""
        found = {
            HOSTFILE: hostfile.render(openmpi4.hosts(plan), dialect=Dialect.MPICH).encode(),
            OUTPUT: _script(OUTPUT).replace(b"@MARK@", plan.mark.encode()),
        }
        if len(plan.placements) > 1:
            found[SSH] = _script(SSH).replace(b"@MARK@", f"{TOKEN_VARIABLE}={plan.token}".encode())
            found[ssh_mesh.CONFIG_FILE] = ssh_mesh.config(plan).encode()
        return found

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return mpiexec's argv behind the script that tells its two outputs apart."""
        several = len(plan.placements) > 1
        first = plan.placements[0]
        # By way of sh, because the folder may lie on a file system that executes nothing. Right before mpiexec, because
        # -genvlist overlooks the last variable of the environment (MPICH 5.0.2), which must not be a secret.
        remote = ("env", f"HYDRA_LAUNCHER_EXTRA_ARGS={plan.directory}/{SSH}") if several else ()
        return (
            "sh",
            f"{plan.directory}/{OUTPUT}",
            *remote,
            *mpiexec_argv(
                np=plan.np,
                program=("sh", "-c", _RANK, "hydra_rank", *plan.program),
                hosts=openmpi4.hosts(plan),
                hostfile=f"{plan.directory}/{HOSTFILE}",
                env=plan.marked_env,
                mpiexec=plan.mpirun,
                launcher_program="/bin/sh" if several else None,
                # The host name may mean another address, or none, on the other nodes.
                local_address=first.address if several and first.address not in _EVERYWHERE else None,
                rank_map=_node_of_rank(plan) if several and plan.map_by == "node" else None,
                prefix=f"[{plan.mark},%r]<stdout>:",
            ),
        )


def _node_of_rank(plan: LaunchPlan) -> tuple[int, ...]:
    names = [placement.node for placement in plan.placements]
    return tuple(names.index(node) for node in plan.node_of_rank)


def _script(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()
