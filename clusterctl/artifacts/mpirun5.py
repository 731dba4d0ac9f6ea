"""Build the command line of Open MPI 5's mpirun, which runs PRRTE's prterun with other option names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.artifacts.mpirun import agent_words, check, dotted, interface_words, plain_word, variable


def mpirun5_argv(
    *,
    np: int,
    program: Sequence[str],
    hosts: Sequence[tuple[str, int]] = (),
    hostfile: str | None = None,
    env: Mapping[str, str | None] | None = None,
    tcp_interface: str | None = None,
    mpirun: str = "mpirun",
    allow_root: bool = True,
    ssh_agent: Sequence[str] | None = None,
    tree_spawn: bool = True,
    oob_interface: bool = True,
    pml: str | None = "ob1",
    bind_to: str = "none",
    map_by: str = "slot",
    tag_output: bool = False,
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start ``np`` ranks of ``program`` under Open MPI 5.

    The parameters are those of :func:`clusterctl.artifacts.mpirun.mpirun_argv`. Options of the launch go to PRRTE
    by ``--prtemca``, those of the ranks' own communication to Open MPI by ``--mca``. The port is left to ssh_config:
    ``plm_ssh_args`` was misread in 5.0.0 (ompi issue 12090).
    Raise ArtifactError for settings that contradict each other, or that Open MPI would misread.
    """
    check(np, program, hosts)
    argv = [mpirun, "-np", str(np)]
    if hostfile is not None:
        argv += ["--hostfile", plain_word("the hostfile's path", hostfile)]
    elif hosts:
        argv += ["--host", ",".join(f"{name}:{slots}" for name, slots in hosts)]
    if allow_root:
        argv.append("--allow-run-as-root")
    argv += ["--bind-to", bind_to, "--map-by", map_by]
    if tag_output:
        argv += ["--output", "tag"]
    for name, value in (env or {}).items():
        argv += ["-x", variable(name, value)]
    if pml is not None:
        argv += ["--mca", "pml", pml]
    argv += _interfaces(tcp_interface, oob_interface)
    if ssh_agent:
        argv += ["--prtemca", "plm_ssh_agent", agent_words(ssh_agent)]
    if not tree_spawn:
        argv += ["--prtemca", "plm_ssh_no_tree_spawn", "1"]
    if dotted(hosts):
        argv += ["--prtemca", "prte_keep_fqdn_hostnames", "1"]
    return (*argv, *extra, *program)


def _interfaces(selector: str | None, oob: bool) -> list[str]:
    """Return options that bind ranks to the interface, and PRRTE's daemons unless it is the loopback interface."""
    words: list[str] = []
    for option, mode, names in interface_words(selector):
        words += ["--mca", f"{option}_{mode}", names]
        # With only the loopback interface, PRRTE 3 reports that no network is available.
        if oob and (mode, names) != ("include", "lo"):
            words += ["--prtemca", f"prte_if_{mode}", names]
    return words
