"""Launch with mpirun of Open MPI 4 or 5: explicit hosts, interfaces and environment.

Open MPI 5 runs PRRTE's prterun with other option names: options of the launch go to PRRTE by ``--prtemca``, those of
the ranks' own communication to Open MPI by ``--mca``. The port is left to ssh_config, because 5.0.0 misread
``plm_ssh_args`` (ompi issue 12090).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clusterctl.artifacts import hostfile
from clusterctl.artifacts.words import check, plain_word, variable
from clusterctl.errors import ArtifactError
from clusterctl.inventory.interfaces import Interfaces
from clusterctl.launch import ssh_mesh
from clusterctl.launch.attribution import LeadingTags, Reader, XmlElements
from clusterctl.launch.base import LaunchPlan

HOSTFILE = "hostfile"
Major = Literal[4, 5]
Output = Literal["plain", "tagged", "attributed"]
_IPV4 = re.compile(r"[0-9]+(\.[0-9]+){3}")
# A node that loses power closes no connection: probe idle connections after 10 s instead of 5 minutes.
_KEEPALIVE = (
    "-mca", "oob_tcp_keepalive_time", "10",
    "-mca", "oob_tcp_keepalive_intvl", "5",
    "-mca", "oob_tcp_keepalive_probes", "3",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """Launch with ``mpirun``, which starts one daemon per other node over SSH.

    The fields after ``major`` are for commands that a person starts; a launch of clusterctl keeps their defaults, and
    brings its own hostfile and ssh_config.
    """

    major: Major = 4
    hostfile: str | None = None
    ssh_config: str | None = None
    tree_spawn: bool = True
    oob_interface: bool = True
    pml: str | None = "ob1"
    btl: str | None = "^openib"
    output: Output = "plain"

    name = "openmpi"
    over_ssh = True
    by_slurm = False
    in_turn = True

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of ``--xml``, or of ``--output tag``, where a rank's incomplete line waits for its end."""
        return XmlElements() if self.major == 4 else LeadingTags()

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the hostfile, and with several nodes those for SSH."""
        found = {HOSTFILE: hostfile.render(hosts(plan)).encode()}
        return found | ssh_mesh.files(plan)

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return mpirun's argv, with interfaces and environment spelled out."""
        several = len(plan.placements) > 1
        if plan.by_hand:
            listed: Sequence[tuple[str, int]] = () if plan.here_alone else plan.slots
            config, path, tree_spawn, output = self.ssh_config, self.hostfile, self.tree_spawn, self.output
        else:
            listed, path, output = hosts(plan), f"{plan.directory}/{HOSTFILE}", "attributed"
            # Only the launching node needs SSH to the others, not every node to every other.
            config, tree_spawn = (
                (f"{plan.directory}/{ssh_mesh.CONFIG_FILE}" if several else None),
                not several,
            )
        return mpirun_argv(
            np=plan.np,
            program=plan.program,
            major=self.major,
            hosts=listed,
            hostfile=path,
            # Ranks on other nodes inherit the environment of their daemon, which does not have the token.
            env=dict(plan.env) if plan.by_hand else plan.marked_env,
            interfaces=plan.interfaces,
            mpirun=plan.mpirun,
            ssh_agent=("ssh", "-F", config) if config is not None else None,
            tree_spawn=tree_spawn,
            oob_interface=self.oob_interface,
            pml=self.pml,
            btl=self.btl,
            map_by=plan.map_by,
            output=output,
            extra=_KEEPALIVE if several and self.major == 4 and not plan.by_hand else (),
        )


def hosts(plan: LaunchPlan) -> list[tuple[str, int]]:
    """Return the hosts and their ranks, under the names that mpirun on the first host uses."""
    # mpirun recognizes its own node only by that node's host name; with another name it would use ssh to reach it.
    first, *others = plan.placements
    return [(first.host, first.ranks), *((p.node, p.ranks) for p in others)]


@dataclass(frozen=True, slots=True)
class _Spelling:
    """Hold how one major version writes the options that differ."""

    dash: str
    hosts: str
    launch: str
    """The option for parameters of the launch itself."""
    oob: str
    agent: str
    no_tree_spawn: str
    keep_names: str
    output: Mapping[Output, tuple[str, ...]]


_SPELLINGS: dict[Major, _Spelling] = {
    4: _Spelling(
        dash="-", hosts="-H", launch="-mca", oob="oob_tcp_if", agent="plm_rsh_agent",
        no_tree_spawn="plm_rsh_no_tree_spawn", keep_names="orte_keep_fqdn_hostnames",
        # Ranks cannot forge the elements of --xml; --tag-output is for people to read.
        output={"plain": (), "tagged": ("--tag-output",), "attributed": ("--xml",)},
    ),
    5: _Spelling(
        dash="--", hosts="--host", launch="--prtemca", oob="prte_if", agent="plm_ssh_agent",
        no_tree_spawn="plm_ssh_no_tree_spawn", keep_names="prte_keep_fqdn_hostnames",
        output={"plain": (), "tagged": ("--output", "tag"), "attributed": ("--output", "tag")},
    ),
}  # fmt: skip


def mpirun_argv(
    *,
    np: int,
    program: Sequence[str],
    major: Major = 4,
    hosts: Sequence[tuple[str, int]] = (),
    hostfile: str | None = None,
    env: Mapping[str, str | None] | None = None,
    interfaces: Interfaces | None = None,
    mpirun: str = "mpirun",
    ssh_agent: Sequence[str] | None = None,
    tree_spawn: bool = True,
    oob_interface: bool = True,
    pml: str | None = "ob1",
    btl: str | None = "^openib",
    map_by: str = "slot",
    output: Output = "plain",
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the words that start ``np`` ranks of ``program``.

    ``hosts`` are (name, slots) in the order ranks fill them; empty: this machine only. With ``hostfile`` (a
    path where mpirun runs) they are only counted. A variable with value None is forwarded from mpirun's environment.
    ``interfaces`` are those of the ranks; ``oob_interface`` applies them to mpirun's own connections, too.
    ``ssh_agent`` is the remote shell, such as ``("ssh", "-F", path)``; without ``tree_spawn`` mpirun itself opens every
    connection, so nodes need no SSH to each other. ``btl`` has no effect on Open MPI 5. ``extra`` precedes the program.
    Raise ArtifactError for settings that contradict each other, or that Open MPI would misread.
    """
    check(np, program, hosts)
    spelling = _SPELLINGS[major]
    dash, mca = spelling.dash, f"{spelling.dash}mca"
    argv = [mpirun, "-np", str(np)]
    if hostfile is not None:
        argv += [f"{dash}hostfile", plain_word("the hostfile's path", hostfile)]
    elif hosts:
        argv += [spelling.hosts, ",".join(f"{name}:{slots}" for name, slots in hosts)]
    # Only permits root; it does nothing for other users.
    argv += [
        "--allow-run-as-root",
        f"{dash}bind-to",
        "none",
        f"{dash}map-by",
        map_by,
        *spelling.output[output],
    ]
    for name, value in (env or {}).items():
        argv += ["-x", variable(name, value)]
    if pml is not None:
        argv += [mca, "pml", pml]
    if interfaces is not None:
        mode, names = _restriction(interfaces)
        argv += [mca, f"btl_tcp_if_{mode}", names]
        # With only the loopback interface, PRRTE 3 reports that no network is available.
        if oob_interface and (major, mode, names) != (5, "include", "lo"):
            argv += [spelling.launch, f"{spelling.oob}_{mode}", names]
    if btl is not None and major == 4:
        argv += [mca, "btl", btl]
    if ssh_agent:
        argv += [spelling.launch, spelling.agent, _agent_words(ssh_agent)]
    if not tree_spawn:
        argv += [spelling.launch, spelling.no_tree_spawn, "1"]
    if any("." in name and not _IPV4.fullmatch(name) for name, _ in hosts):
        # Open MPI truncates names at the first dot and would connect to gpu1 instead of gpu1.example.org.
        argv += [spelling.launch, spelling.keep_names, "1"]
    return (*argv, *extra, *program)


def _restriction(interfaces: Interfaces) -> tuple[str, str]:
    """Return ``include`` or ``exclude``, and the names; Open MPI always matches whole names."""
    if not interfaces.excludes:
        return "include", interfaces.listed
    # An exclusion replaces Open MPI's own default, which keeps ranks off the loopback interface.
    return "exclude", interfaces.listed if "lo" in interfaces.names else f"{interfaces.listed},lo"


def _agent_words(agent: Sequence[str]) -> str:
    """Return the remote shell as one word for Open MPI; raise ArtifactError for words that it would split."""
    for word in agent:
        if not word or any(character.isspace() or character in "\"':" for character in word):
            raise ArtifactError(
                f"{word!r} cannot be part of Open MPI's remote shell, which is split at spaces and ':'",
                hint="move the files to paths without spaces and colons",
            )
    return " ".join(agent)
