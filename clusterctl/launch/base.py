"""What a launch is: ranks placed on nodes, a program, an environment; and what a launcher makes of it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from clusterctl.errors import LaunchError
from clusterctl.launch import processes
from clusterctl.launch.attribution import Reader

MapBy = Literal["slot", "node"]
# Every process of a launch carries this variable, so that all of them can be found again on every node.
TOKEN_VARIABLE = "CLUSTERCTL_LAUNCH"
# By these a process knows its place among ranks. Around clusterctl they are another launch's (a shell of srun, a batch
# script, a pod of a job), and ranks would take them for their own.
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
# By these mpirun and mpiexec find themselves in an allocation of Slurm: they would start ranks on its nodes, by srun,
# and refuse ours.
_ALLOCATION = (
    *("SLURM_JOBID", "SLURM_JOB_ID", "SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"),
    *("SLURM_STEPID", "SLURM_STEP_ID"),
)


@dataclass(frozen=True, slots=True)
class Placement:
    """One node's share: its name, its own host name, where its peers reach it by SSH, and its ranks."""

    node: str
    host: str
    address: str
    ssh_port: int | None
    user: str | None
    ranks: int


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch. The first placement is the launching node; ``directory`` exists on every node, owner-only.

    A variable whose value is None is taken from the launching process; ``secrets`` get there on standard input
    (:func:`start_script`).
    ``mark`` is random and stands in the tags before ranks' lines (:mod:`launch.attribution`); no rank is given it.
    """

    token: str
    mark: str
    directory: str
    placements: tuple[Placement, ...]
    program: tuple[str, ...]
    env: tuple[tuple[str, str | None], ...]
    map_by: MapBy
    interface: str | None
    timeout_s: float
    mpirun: str = "mpirun"
    python: str = "python3"
    as_root: bool = False
    known_hosts: tuple[str, ...] = ()
    identity_file: str | None = None
    secrets: tuple[tuple[str, str], ...] = ()

    @property
    def np(self) -> int:
        return sum(placement.ranks for placement in self.placements)

    @property
    def marked_env(self) -> dict[str, str | None]:
        """``env`` and the token, for launchers that hand nothing of their own environment to ranks elsewhere."""
        return {TOKEN_VARIABLE: self.token, **dict(self.env)}

    @property
    def node_of_rank(self) -> tuple[str, ...]:
        """The node of each rank, in rank order."""
        if self.map_by == "slot":
            return tuple(p.node for p in self.placements for _ in range(p.ranks))
        left = {p.node: p.ranks for p in self.placements}
        order: list[str] = []
        while len(order) < self.np:
            for node in [n for n, count in left.items() if count > 0]:
                order.append(node)
                left[node] -= 1
        return tuple(order)


class Launcher(Protocol):
    """A way to start ranks: files that must lie in the plan's directory, and the argv that starts them all."""

    @property
    def name(self) -> str:
        """The launcher's name in results."""

    @property
    def over_ssh(self) -> bool:
        """Whether the launching node reaches its peers through the ssh_config of :mod:`launch.ssh_mesh`."""

    @property
    def by_slurm(self) -> bool:
        """Whether Slurm starts the ranks, in the allocation around clusterctl if there is one."""

    @property
    def in_turn(self) -> bool:
        """Whether it can number ranks one to each node in turn; else node after node."""

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return what tells which rank wrote each piece of the launcher's stream."""

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the files for the launching node, by name inside ``plan.directory``."""

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return the command for the launching node."""


def spread(slots: Sequence[int], np: int, map_by: MapBy) -> tuple[int, ...]:
    """Return how many of ``np`` ranks each node gets: node after node, or one to each in turn.

    Raise LaunchError when the slots do not suffice.
    """
    if np < 1:
        raise LaunchError(f"{np} ranks cannot be started", hint="ask for one rank or more: -np N")
    if np > sum(slots):
        raise LaunchError(
            f"{np} ranks were asked for, but the nodes have {sum(slots)} slots",
            hint="ask for fewer ranks, add nodes, or set slots in the inventory",
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


# How long a launcher may take to end its ranks after SIGTERM; longer than the grace of each (agents.py: 10 s).
_END_S = 15


def start_script(plan: LaunchPlan, launcher: Launcher, limit_s: float) -> bytes:
    """Return sh text that runs the launch on the launching node, its two outputs one stream, to be read by ``sh -s``.

    On standard input, secrets are in no file and no process list. The launcher is ended after ``limit_s`` by the node
    itself, and then each rank that outlived it: nothing hangs on, though the controller may be dead.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in plan.secrets)
    foreign = _OTHERS_PLACES if launcher.by_slurm else (*_OTHERS_PLACES, *_ALLOCATION)
    unset = (word for name in foreign for word in ("-u", name))
    words = shlex.join(("env", *unset, f"{TOKEN_VARIABLE}={plan.token}", *launcher.argv(plan)))
    clock = f"-k {_END_S} {math.ceil(limit_s)}"
    # In the foreground timeout(1) stays in this process group, which a controller that is alive ends as a whole.
    # busybox has no such option, and does so anyway.
    return f"""{exports}if timeout --foreground 1 true 2>/dev/null; then clock='timeout --foreground {clock}'
elif command -v timeout >/dev/null 2>&1; then clock='timeout {clock}'
else clock=
fi
$clock {words} </dev/null 2>&1
status=$?
[ "$status" -lt 124 ] || {{
{processes.kill_ranks_text(plan.token)}}}
exit "$status"
""".encode()
