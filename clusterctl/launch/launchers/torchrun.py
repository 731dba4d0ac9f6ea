"""Launch with torchrun: ``agents.py`` on the launching node starts one agent per node over the ssh_config."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.errors import ArtifactError
from clusterctl.launch import processes, ssh_mesh
from clusterctl.launch.attribution import MarkedTags, Reader
from clusterctl.launch.base import LaunchPlan

STARTER = "agents.py"
SETTINGS = "agents.json"
# Holds the template of torchrun's tags with the mark, so ranks must not inherit it.
PREFIX_VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"


@dataclass(frozen=True, slots=True)
class Torchrun:
    """Launch torchrun with static rendezvous; it always numbers ranks node after node and ignores ``map_by``.

    The fields are for commands that a person starts: the port of the rendezvous, and whether any program can run.
    """

    port: int = 29500
    any_program: bool = True

    name = "torchrun"
    over_ssh = True
    by_slurm = False
    in_turn = False

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of the tags that torchrun writes."""
        return MarkedTags(plan.mark)

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the starter, its settings, and with several nodes those for SSH."""
        env = plan.marked_env
        wanted = {
            "mark": plan.mark,
            "kill_ranks": processes.kill_ranks_text(plan.token),
            "node_names": [placement.node for placement in plan.placements],
            "commands": [command for _, command in self.commands(plan)],
            "remote": ["ssh", "-F", f"{plan.directory}/{ssh_mesh.CONFIG_FILE}"],
            "env": {name: value for name, value in env.items() if value is not None},
            "forward": [name for name, value in env.items() if value is None],
        }
        found = {
            STARTER: Path(__file__).with_name(STARTER).read_bytes(),
            SETTINGS: json.dumps(wanted, indent=1).encode(),
        }
        return found | ssh_mesh.files(plan)

    def commands(self, plan: LaunchPlan) -> list[tuple[str, tuple[str, ...]]]:
        """Return each node's name and the command of its agent."""
        env = dict(plan.env)
        address = env.get("MASTER_ADDR") or (plan.placements[0].address if plan.by_hand else "127.0.0.1")
        found = []
        for index, placement in enumerate(plan.placements):
            command = torchrun_argv(
                nodes=len(plan.placements),
                node_rank=index,
                ranks_here=placement.ranks,
                master_address=address,
                master_port=int(env.get("MASTER_PORT") or self.port),
                program=plan.program if plan.by_hand else ("env", "-u", PREFIX_VARIABLE, *plan.program),
                python=None if plan.by_hand else plan.python,
                log_directory=None if plan.by_hand else f"{plan.directory}/torchrun-{index}",
                any_program=self.any_program,
            )
            said = [f"{name}={value}" for name, value in env.items() if value is not None]
            found.append((placement.node, ("env", *said, *command) if plan.by_hand and said else command))
        return found

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return the starter's argv, because the torchrun commands are in its settings; by hand: the first node's."""
        if plan.by_hand:
            return self.commands(plan)[0][1]
        return (plan.python, f"{plan.directory}/{STARTER}", f"{plan.directory}/{SETTINGS}")


def torchrun_argv(
    *,
    nodes: int,
    node_rank: int,
    ranks_here: int,
    master_address: str,
    master_port: int,
    program: Sequence[str],
    python: str | None = None,
    log_directory: str | None = None,
    any_program: bool = False,
) -> tuple[str, ...]:
    """Return the words that start the agent of one node with ``ranks_here`` ranks.

    Static rendezvous: every node gets the same address and port, on which node 0 listens, and its own ``node_rank``;
    no restarts. ``python`` runs torchrun as a module, in case it is not on PATH. ``log_directory`` writes each rank's
    output to files and also prints it. ``any_program``: the program is not a Python script.
    Raise ArtifactError for invalid counts and ports.
    """
    if not 0 <= node_rank < nodes:
        raise ArtifactError(
            f"node rank {node_rank} is out of range for {nodes} nodes", hint="node ranks count from 0"
        )
    if ranks_here < 1:
        raise ArtifactError(f"a node must have at least 1 rank, not {ranks_here}", hint="exclude the node")
    if not 1 <= master_port <= 65535:
        raise ArtifactError(f"invalid port {master_port}", hint="use 1 to 65535; torchrun's default is 29500")
    if not program or program[0].startswith("-"):
        raise ArtifactError("no program to run was given", hint="write it after '--'")
    start = (python, "-m", "torch.distributed.run") if python is not None else ("torchrun",)
    argv = [
        *start, "--nnodes", str(nodes), "--nproc-per-node", str(ranks_here), "--node-rank", str(node_rank),
        "--master-addr", master_address, "--master-port", str(master_port), "--max-restarts", "0",
    ]  # fmt: skip
    if log_directory is not None:
        argv += ["--log-dir", log_directory, "--tee", "3"]
    if any_program:
        argv.append("--no-python")
    return (*argv, *program)
