"""Launch with MPICH: Hydra's mpiexec, a remote shell of clusterctl, and the ssh_config of the other launchers.

Small scripts add what Hydra lacks: ``hydra_ssh.sh`` is its remote shell, ``hydra_output.sh`` separates its stdout and
stderr, and an inline script around every rank reports the rank's exit status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterctl.artifacts import hostfile
from clusterctl.artifacts.hostfile import Dialect
from clusterctl.artifacts.words import check, plain_word, variable
from clusterctl.errors import ArtifactError
from clusterctl.inventory.interfaces import Interfaces
from clusterctl.launch import ssh_mesh
from clusterctl.launch.attribution import MarkedTags, Reader
from clusterctl.launch.base import TOKEN_VARIABLE, LaunchPlan
from clusterctl.launch.launchers.openmpi import hosts

HOSTFILE = "hostfile"
SSH = "hydra_ssh.sh"
OUTPUT = "hydra_output.sh"
_EVERYWHERE = ("localhost", "127.0.0.1", "::1")
# Under Hydra a rank that exits with a status does not end the others, and Hydra does not report its number; a rank that
# dies of a signal ends all. The script is inline because it runs on every node.
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
    """Launch with MPICH's ``mpiexec``, which starts one proxy per node over SSH."""

    name = "mpich"
    over_ssh = True
    by_slurm = False
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of ``-prepend-pattern``."""
        return MarkedTags(plan.mark)

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the hostfile, the scripts, and with several nodes those for SSH."""
        found = {
            HOSTFILE: hostfile.render(hosts(plan), dialect=Dialect.MPICH).encode(),
            OUTPUT: _script(OUTPUT).replace(b"@MARK@", plan.mark.encode()),
        }
        if len(plan.placements) > 1:
            found[SSH] = _script(SSH).replace(b"@MARK@", f"{TOKEN_VARIABLE}={plan.token}".encode())
        return found | ssh_mesh.files(plan)

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return mpiexec's argv, behind the script that separates its two outputs unless a person starts it."""
        several = len(plan.placements) > 1
        if plan.by_hand:
            return mpiexec_argv(
                np=plan.np,
                program=plan.program,
                hosts=() if plan.here_alone else plan.slots,
                env=dict(plan.env),
                mpiexec=plan.mpirun,
                interfaces=plan.interfaces,
            )
        first = plan.placements[0]
        # sh runs the script, because the directory may be mounted noexec. env comes right before mpiexec, because
        # -genvlist skips the last variable of the environment (MPICH 5.0.2), which must not be a secret.
        remote = ("env", f"HYDRA_LAUNCHER_EXTRA_ARGS={plan.directory}/{SSH}") if several else ()
        return (
            "sh",
            f"{plan.directory}/{OUTPUT}",
            *remote,
            *mpiexec_argv(
                np=plan.np,
                program=("sh", "-c", _RANK, "hydra_rank", *plan.program),
                hosts=hosts(plan),
                hostfile=f"{plan.directory}/{HOSTFILE}",
                env=plan.marked_env,
                mpiexec=plan.mpirun,
                launcher_program="/bin/sh" if several else None,
                # The other nodes may resolve the host name to another address, or not at all.
                local_address=first.address if several and first.address not in _EVERYWHERE else None,
                rank_map=_node_of_rank(plan) if several and plan.map_by == "node" else None,
                prefix=f"[{plan.mark},%r]<stdout>:",
            ),
        )


def _node_of_rank(plan: LaunchPlan) -> tuple[int, ...]:
    names = [placement.node for placement in plan.placements]
    return tuple(names.index(node) for node in plan.node_of_rank)


def mpiexec_argv(
    *,
    np: int,
    program: Sequence[str],
    hosts: Sequence[tuple[str, int]] = (),
    hostfile: str | None = None,
    env: Mapping[str, str | None] | None = None,
    mpiexec: str = "mpiexec",
    launcher_program: str | None = None,
    local_address: str | None = None,
    interfaces: Interfaces | None = None,
    rank_map: Sequence[int] | None = None,
    prefix: str | None = None,
) -> tuple[str, ...]:
    """Return the words that start ``np`` ranks of ``program`` under Hydra, the launcher of MPICH.

    ``hosts`` are (name, slots); with ``hostfile`` (a path where mpiexec runs) they are only counted. A variable
    with the value None is copied from mpiexec's own environment. ``launcher_program`` runs instead of ssh, because a
    hostfile cannot hold ports and keys (mpich issues 6799 and 7127). ``local_address`` is the address for the other
    nodes instead of the host name; ``interfaces`` set it by a network interface. ``rank_map`` is the index of each
    rank's host; None: host after host. ``prefix`` precedes every line of a rank, with ``%r`` for the rank. Raise
    ArtifactError for settings that contradict each other, or that Hydra would misread.
    """
    check(np, program, hosts)
    argv = [mpiexec, "-n", str(np)]
    if hostfile is not None:
        argv += ["-f", plain_word("the hostfile's path", hostfile)]
    elif hosts:
        argv += ["-hosts", ",".join(f"{name}:{slots}" for name, slots in hosts)]
    if launcher_program is not None:
        argv += ["-launcher", "ssh", "-launcher-exec", plain_word("the remote shell", launcher_program)]
    if local_address is not None:
        argv += ["-localhost", local_address]
    if interfaces is not None:
        argv += ["-iface", _one_interface(interfaces)]
    if rank_map is not None:
        argv += ["-rankmap", ",".join(map(str, rank_map))]
    if prefix is not None:
        argv += ["-prepend-pattern", prefix]
    forwarded = []
    for name, value in (env or {}).items():
        variable(name, value)
        if value is None:
            forwarded.append(name)
        else:
            argv += ["-genv", name, value]
    if forwarded:
        argv += ["-genvlist", ",".join(forwarded)]
    return (*argv, *program)


def _one_interface(interfaces: Interfaces) -> str:
    if interfaces.excludes or len(interfaces.names) > 1:
        raise ArtifactError(
            f"MPICH needs the name of one interface, not {interfaces.text!r}",
            hint="set socket_ifname to the interface to use, such as eth0",
        )
    return interfaces.listed


def _script(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()
