"""The inventory of containers that are up: containers are nodes, and every verb works on them by the same code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusterctl.errors import LaunchError, UsageError
from clusterctl.inventory.model import Node
from clusterctl.rundir import RunDir, default_root, own_file, write_atomically
from clusterctl.secret.scrub import names_a_secret

INVENTORY = "containers.yaml"
IDENTITY = "containers_ed25519"
KNOWN_HOSTS = "containers_known_hosts"
# What a node says of how it is reached is its container's own; what it says of what runs there holds in both.
_KEPT = (
    "gpus", "slots", "socket_ifname", "rdma_devices", "python", "mpirun", "all_reduce_perf", "env", "proxy_jump",
)  # fmt: skip


def container_node(node: Node, address: str, port: int, folder: Path) -> Node:
    """Return a node's container as a node: reached as root, by the key and the host key of this ``up``."""
    kept = {name: getattr(node, name) for name in _KEPT}
    # No file holds secrets: those of the container itself are inside it already.
    kept["env"] = {n: value for n, value in node.env.items() if not names_a_secret(n, value)}
    return Node(
        name=node.name,
        address=address,
        port=port,
        user="root",
        identity_file=str((folder / IDENTITY).absolute()),
        known_hosts=str((folder / KNOWN_HOSTS).absolute()),
        **kept,
    )


def inventory_text(nodes: Sequence[Node], launcher: str) -> str:
    """Return the inventory file (YAML) of the containers."""
    import yaml

    common = {"user": "root", "identity_file": nodes[0].identity_file, "known_hosts": nodes[0].known_hosts}
    entries: list[dict[str, Any]] = []
    for node in nodes:
        found = {name: getattr(node, name) for name in _KEPT}
        said = {name: value for name, value in found.items() if value not in (None, {})}
        entries.append({"name": node.name, "address": node.address, "port": node.port, **said})
    document = {"version": 1, "launcher": launcher, "defaults": common, "nodes": entries}
    return yaml.safe_dump(document, sort_keys=False)


def write(run: RunDir, nodes: Sequence[Node], launcher: str) -> Path:
    """Write the containers' inventory, last of all: with it the containers count as up."""
    path = run.path / INVENTORY
    _write(path, inventory_text(nodes, launcher).encode())
    return path


def write_keys(run: RunDir, private: bytes, known_hosts: str) -> None:
    """Write the login key and the pinned host keys; both are their owner's alone."""
    _write(run.path / IDENTITY, private)
    _write(run.path / KNOWN_HOSTS, known_hosts.encode())


def _write(path: Path, data: bytes) -> None:
    with own_file(path):
        write_atomically(path, data)


def forget(run: RunDir) -> None:
    """Remove inventory and keys: the containers are gone."""
    for name in (INVENTORY, IDENTITY, KNOWN_HOSTS):
        (run.path / name).unlink(missing_ok=True)


def those_up(name: str | None, root: Path | None) -> RunDir:
    """Return the run whose containers are up: the one that is named, else the only one there is.

    Raise LaunchError when none is up, UsageError when several are and none is named.
    """
    base = root if root is not None else default_root()
    if name is not None:
        run = RunDir.open(name, root)
        if not run.holds(INVENTORY):
            raise LaunchError(f"no containers of {run.id} are up", hint="clusterctl up starts them")
        return run
    runs = sorted(path.parent for path in base.glob(f"*/{INVENTORY}"))
    if not runs:
        closed = [path.name for path in sorted(base.glob("*-up-*")) if not os.access(path, os.X_OK)]
        hint = f"{closed[-1]} is somebody else's (with sudo?): go on with it as they" if closed else None
        raise LaunchError(
            f"no containers are up, as far as {base} tells", hint=hint or "clusterctl up starts them"
        )
    if len(runs) > 1:
        names = ", ".join(path.name for path in runs)
        raise UsageError(f"containers of {len(runs)} runs are up: {names}", hint="say which: --run RUN")
    return RunDir(runs[0])
