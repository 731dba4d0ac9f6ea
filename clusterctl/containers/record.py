"""Record running containers as an inventory, so that every command works on them as on nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clusterctl.errors import LaunchError, UsageError
from clusterctl.inventory.model import Node
from clusterctl.rundir import RunDir, default_root, own_file, write_atomically
from clusterctl.text.secret.scrub import names_a_secret

INVENTORY = "containers.yaml"
IDENTITY = "containers_ed25519"
KNOWN_HOSTS = "containers_known_hosts"
# A container has its own connection settings; these settings of the programs on a node hold for its container, too.
_KEPT = (
    "gpus", "slots", "socket_ifname", "rdma_devices", "python", "mpirun", "all_reduce_perf", "env", "proxy_jump",
)  # fmt: skip


def container_node(node: Node, address: str, port: int, folder: Path) -> Node:
    """Return a node's container as a node: login as root, with the login key and host keys of this ``up``."""
    kept = {name: getattr(node, name) for name in _KEPT}
    # Secrets are written to no file; the container already has its own.
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
    """Write the containers' inventory; it comes last, because its existence marks the containers as up."""
    path = run.path / INVENTORY
    _write(path, inventory_text(nodes, launcher).encode())
    return path


def write_keys(run: RunDir, private: bytes, known_hosts: str) -> None:
    """Write the login key and the pinned host keys, readable by their owner only."""
    _write(run.path / IDENTITY, private)
    _write(run.path / KNOWN_HOSTS, known_hosts.encode())


def _write(path: Path, data: bytes) -> None:
    with own_file(path):
        write_atomically(path, data)


def forget(run: RunDir) -> None:
    """Remove inventory and keys, after the containers were removed."""
    for name in (INVENTORY, IDENTITY, KNOWN_HOSTS):
        (run.path / name).unlink(missing_ok=True)


def none_up(root: Path | None) -> bool:
    """Return whether no run has running containers; raise LaunchError if a run of another user may have some."""
    base = root if root is not None else default_root()
    if any(base.glob(f"*/{INVENTORY}")):
        return False
    _refuse_hidden(base)
    return True


def _refuse_hidden(base: Path) -> None:
    closed = [path.name for path in sorted(base.glob("*-up-*")) if not os.access(path, os.X_OK)]
    if closed:
        raise LaunchError(
            f"no containers are recorded as running in {base}",
            hint=f"{closed[-1]} belongs to another user (was sudo used?): run as that user",
        )


def those_up(name: str | None, root: Path | None) -> RunDir:
    """Return the run whose containers are up: the named one, else the only one.

    Raise LaunchError if no such run exists, UsageError if several exist and no name is given.
    """
    base = root if root is not None else default_root()
    if name is not None:
        run = RunDir.open(name, root, ("up",))
        if not run.holds(INVENTORY):
            raise LaunchError(f"no containers of {run.id} are up", hint="start them with clusterctl up")
        return run
    runs = sorted(path.parent for path in base.glob(f"*/{INVENTORY}"))
    if not runs:
        _refuse_hidden(base)
        raise LaunchError(
            f"no containers are recorded as running in {base}", hint="start them with clusterctl up"
        )
    if len(runs) > 1:
        names = ", ".join(path.name for path in runs)
        raise UsageError(f"containers of {len(runs)} runs are up: {names}", hint="choose one with --run RUN")
    return RunDir(runs[0])
