"""Build the command line of MPICH's mpiexec (Hydra): explicit hosts, interfaces and environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.artifacts.mpirun import check, plain_word, variable
from clusterctl.errors import ArtifactError


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
    interface: str | None = None,
    rank_map: Sequence[int] | None = None,
    prefix: str | None = None,
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start ``np`` ranks of ``program`` under Hydra, the launcher of MPICH.

    ``hosts`` are (name, slots); with ``hostfile`` (a path where mpiexec runs) they are only counted. A variable
    with the value None is copied from mpiexec's own environment. ``launcher_program`` runs instead of ssh, because a
    hostfile cannot hold ports and keys (mpich issues 6799 and 7127). ``local_address`` is the address for the other
    nodes instead of the host name; ``interface`` sets it by a network interface. ``rank_map`` is the index of each
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
    if interface is not None:
        argv += ["-iface", _one_interface(interface)]
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
    return (*argv, *extra, *program)


def _one_interface(selector: str) -> str:
    name = selector.lstrip("=")
    if name.startswith("^") or "," in name:
        raise ArtifactError(
            f"MPICH needs the name of one interface, not {selector!r}",
            hint="set socket_ifname to the interface to use, such as eth0",
        )
    return name
