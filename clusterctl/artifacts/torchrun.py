"""Build torchrun's command line: one agent per node, with rendezvous at a fixed address and port."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.errors import ArtifactError


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
