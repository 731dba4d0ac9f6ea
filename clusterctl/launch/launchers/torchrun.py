"""Launch with torchrun: ``agents.py`` on the launching node starts one agent per node over the ssh_config."""

from __future__ import annotations

import json
from pathlib import Path

from clusterctl.artifacts.torchrun import torchrun_argv
from clusterctl.launch import processes, ssh_mesh
from clusterctl.launch.attribution import MarkedTags, Reader
from clusterctl.launch.base import LaunchPlan

STARTER = "agents.py"
SETTINGS = "agents.json"
# Holds the template of torchrun's tags with the mark, so ranks must not inherit it.
PREFIX_VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"


class Torchrun:
    """Launch torchrun with static rendezvous; it always numbers ranks node after node and ignores ``map_by``."""

    name = "torchrun"
    over_ssh = True
    by_slurm = False
    in_turn = False

    def reader(self, plan: LaunchPlan) -> Reader:
        """Return the reader of the tags that torchrun writes."""
        return MarkedTags(plan.mark)

    def files(self, plan: LaunchPlan) -> dict[str, bytes]:
        """Return the starter, its settings, and with several nodes the ssh_config."""
        env = plan.marked_env
        address, port = env.get("MASTER_ADDR") or "127.0.0.1", int(env.get("MASTER_PORT") or 29500)
        wanted = {
            "mark": plan.mark,
            "kill_ranks": processes.kill_ranks_text(plan.token),
            "node_names": [placement.node for placement in plan.placements],
            "commands": [
                torchrun_argv(
                    nodes=len(plan.placements),
                    node_rank=index,
                    ranks_here=placement.ranks,
                    master_address=address,
                    master_port=port,
                    program=("env", "-u", PREFIX_VARIABLE, *plan.program),
                    python=plan.python,
                    log_directory=f"{plan.directory}/torchrun-{index}",
                    any_program=True,
                )
                for index, placement in enumerate(plan.placements)
            ],
            "remote": ["ssh", "-F", f"{plan.directory}/{ssh_mesh.CONFIG_FILE}"],
            "env": {name: value for name, value in env.items() if value is not None},
            "forward": [name for name, value in env.items() if value is None],
        }
        found = {
            STARTER: Path(__file__).with_name(STARTER).read_bytes(),
            SETTINGS: json.dumps(wanted, indent=1).encode(),
        }
        if len(plan.placements) > 1:
            found[ssh_mesh.CONFIG_FILE] = ssh_mesh.config(plan).encode()
        return found

    def argv(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return the starter's argv; the torchrun commands are in the settings file."""
        return (plan.python, f"{plan.directory}/{STARTER}", f"{plan.directory}/{SETTINGS}")
