"""Define a launch (ranks placed on nodes, program, environment) and the interface of a launcher."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from clusterctl.errors import LaunchError
from clusterctl.facts.model.launch import MeshKey
from clusterctl.inventory.interfaces import Interfaces
from clusterctl.inventory.model import ContainerSettings
from clusterctl.launch import processes
from clusterctl.launch.attribution import Reader
from clusterctl.text.wording import counted

MapBy = Literal["slot", "node"]
# Each process of a launch carries this variable; it is how clusterctl finds them on every node.
TOKEN_VARIABLE = "CLUSTERCTL_LAUNCH"
# Ranks read their number and world size from these. In clusterctl's own environment they belong to another launch (an
# srun shell, a batch script, a pod), and the ranks must not inherit them.
_OTHERS_PLACES = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
    *(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    *("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
)
# mpirun and mpiexec detect a Slurm allocation by these: they would start ranks on its nodes with srun and reject the
# hostfile.
_ALLOCATION = (
    *("SLURM_JOBID", "SLURM_JOB_ID", "SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"),
    *("SLURM_STEPID", "SLURM_STEP_ID"),
)


@dataclass(frozen=True, slots=True)
class Placement:
    """Hold one node's share: inventory name, host name, SSH address for its peers, and number of ranks.

    ``slots`` is how many ranks the node takes (None: its share); ``local``: it is the machine of clusterctl.
    ``host_keys`` are those that its peers shall expect: type and key.
    """

    node: str
    host: str
    address: str
    ssh_port: int | None
    user: str | None
    ranks: int
    slots: int | None = None
    local: bool = False
    host_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Hold one launch: placement, environment, and through the launcher its argv and the files to write.

    The first placement is the launching node; ``directory`` exists on every node with mode 0700. An empty ``directory``
    means a launch that a person starts by hand: it has no files, and clusterctl neither finds nor ends its ranks.
    A variable in ``env`` with the value None is inherited from the launching process, which receives ``secrets`` on
    standard input (:func:`start_script`).
    ``known_hosts``, ``identity_file`` and ``mesh_keys`` are files of the launching node.
    ``mark`` is random and part of the tags before ranks' lines (:mod:`launch.attribution`); ranks never receive it.
    """

    launcher: RankLauncher
    token: str
    mark: str
    directory: str
    placements: tuple[Placement, ...]
    program: tuple[str, ...]
    env: tuple[tuple[str, str | None], ...]
    map_by: MapBy
    interfaces: Interfaces | None
    timeout_s: float
    mpirun: str = "mpirun"
    python: str = "python3"
    known_hosts: tuple[str, ...] = ()
    identity_file: str | None = None
    mesh_keys: tuple[MeshKey, ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    foreign: bool = False
    """Whether ranks run a program of the user, which may leave processes behind."""
    container: ContainerSettings | None = None
    """The container in whose image Slurm starts the ranks; None: they run on the nodes themselves."""
    by_enroot: bool = False
    """Whether enroot starts the image itself, because Slurm has no Pyxis."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command for the launching node."""
        return self.launcher.argv(self)

    @property
    def files(self) -> dict[str, bytes]:
        """Return the files that the launch needs on the launching node, by name inside ``directory``."""
        return {} if self.by_hand else self.launcher.files(self)

    @property
    def by_hand(self) -> bool:
        """Tell whether a person starts the command, without the directory of a launch."""
        return not self.directory

    @property
    def here_alone(self) -> bool:
        """Tell whether all ranks run on this machine."""
        return len(self.placements) == 1 and self.placements[0].local

    @property
    def slots(self) -> list[tuple[str, int]]:
        """Return the names of the nodes and how many ranks they take."""
        return [(p.node, p.ranks if p.slots is None else p.slots) for p in self.placements]

    @property
    def np(self) -> int:
        return sum(placement.ranks for placement in self.placements)

    @property
    def marked_env(self) -> dict[str, str | None]:
        """Return ``env`` with the token, for launchers that do not forward their environment to remote ranks."""
        return {TOKEN_VARIABLE: self.token, **dict(self.env)}

    @property
    def node_of_rank(self) -> tuple[str, ...]:
        """Return the node of each rank, in rank order."""
        if self.map_by == "slot":
            return tuple(p.node for p in self.placements for _ in range(p.ranks))
        left = {p.node: p.ranks for p in self.placements}
        order: list[str] = []
        while len(order) < self.np:
            for node in [n for n, count in left.items() if count > 0]:
                order.append(node)
                left[node] -= 1
        return tuple(order)


class RankLauncher(Protocol):
    """Define a way to start ranks: files for the plan's directory, and the argv that starts all ranks."""

    @property
    def name(self) -> str:
        """Return the launcher's name in results."""

    @property
    def over_ssh(self) -> bool:
        """Tell whether the launching node reaches its peers through the ssh_config of :mod:`launch.ssh_mesh`."""

    @property
    def by_slurm(self) -> bool:
        """Tell whether Slurm starts the ranks, in the current allocation if clusterctl runs inside one."""

    @property
    def in_turn(self) -> bool:
        """Tell whether the launcher can number ranks round-robin over the nodes; otherwise it fills node after node."""

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader that attributes each piece of the launcher's stream to a rank."""

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the files for the launching node, by name inside ``plan.directory``."""

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return the command for the launching node."""


def spread(slots: Sequence[int], np: int, map_by: MapBy) -> tuple[int, ...]:
    """Return how many of ``np`` ranks each node gets: node after node (slot) or round-robin (node).

    Raise LaunchError if ``np`` is below one or exceeds the sum of the slots.
    """
    if np < 1:
        raise LaunchError(f"-np must be at least 1, not {np}", hint="ask for one rank or more: -np N")
    if np > sum(slots):
        raise LaunchError(
            f"-np asks for {np} ranks, but the nodes have {counted(sum(slots), 'slot')} "
            "(one per GPU, or `slots` of the inventory)",
            hint="bench, launch and render: add --oversubscribe to put several ranks on a GPU (gloo, ccore and NCCL "
            "can share one); or lower -np, or add nodes",
        )
    counts = [0] * len(slots)
    if map_by == "slot":
        left = np
        for index, room in enumerate(slots):
            counts[index] = min(room, left)
            left -= counts[index]
        return tuple(counts)
    while sum(counts) < np:
        for index, room in enumerate(slots):
            if counts[index] < room and sum(counts) < np:
                counts[index] += 1
    return tuple(counts)


# How long a launcher may take to end its ranks after SIGTERM; longer than each launcher's own grace (agents.py: 10 s).
_END_S = 15


def start_script(plan: LaunchPlan, limit_s: float) -> bytes:
    """Return sh text, for ``sh -s``, that runs the launch on the launching node with stdout and stderr as one stream.

    Because the text arrives on standard input, its secrets appear in no file and no process list. The node itself ends
    the launcher after ``limit_s`` and then kills remaining ranks, even if the controller is dead.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in plan.secrets)
    foreign = _OTHERS_PLACES if plan.launcher.by_slurm else (*_OTHERS_PLACES, *_ALLOCATION)
    unset = (word for name in foreign for word in ("-u", name))
    words = shlex.join(("env", *unset, f"{TOKEN_VARIABLE}={plan.token}", *plan.argv))
    clock = f"-k {_END_S} {math.ceil(limit_s)}"
    # With --foreground, timeout(1) stays in this process group, which a live controller ends as a whole. busybox lacks
    # the option and behaves this way by default. The trial has a minute, because a busy node may need seconds for it.
    return f"""{exports}if timeout --foreground 60 true 2>/dev/null; then clock='timeout --foreground {clock}'
elif command -v timeout >/dev/null 2>&1; then clock='timeout {clock}'
else clock=
fi
$clock {words} </dev/null 2>&1
status=$?
[ "$status" -lt 124 ] || {{
{processes.kill_ranks_text(plan.token)}}}
exit "$status"
""".encode()
