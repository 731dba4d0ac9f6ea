"""Place ranks on the slots of nodes, and find settings that all nodes of one launch must share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterctl.errors import ArtifactError
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import Node
from clusterctl.text.grouping import grouped
from clusterctl.text.secret.scrub import names_a_secret


@dataclass(frozen=True, slots=True)
class RankPlacement:
    """Hold the number of ranks, and the (name, slots) of the nodes that they fill in order."""

    np: int
    hosts: tuple[tuple[str, int], ...]


def slots_of(node: Node, found: Mapping[str, int] | None = None) -> int:
    """Return a node's slots: `slots`, else its GPUs, else as ``found`` on it; raise ArtifactError if unknown."""
    slots = node.slots or node.gpus or (found or {}).get(node.name)
    if not slots:
        raise ArtifactError(
            f"the number of ranks for {node.name} is unknown without contacting it",
            hint="set `gpus` or `slots` in the inventory, or use --slots",
        )
    return slots


def place(
    nodes: Sequence[Node], np: int | None = None, found: Mapping[str, int] | None = None
) -> RankPlacement:
    """Fill the nodes in inventory order with ``np`` ranks (None: all slots); nodes without ranks are omitted.

    Raise ArtifactError without nodes, or if ``np`` is below one or exceeds the slots.
    """
    if not nodes:
        raise ArtifactError("no node is selected", hint="widen --limit")
    if np is not None and np < 1:
        raise ArtifactError(f"-np must be at least 1, not {np}", hint="ask for at least one rank with -np")
    hosts: list[tuple[str, int]] = []
    total = 0
    for node in nodes:
        if np is not None and total >= np:
            break
        slots = slots_of(node, found)
        hosts.append((node.name, slots))
        total += slots
    if np is not None and np > total:
        raise ArtifactError(
            f"-np asks for {np} ranks, but {nodeset.fold(n.name for n in nodes)} has {total} slots",
            hint=f"ask for at most {total} with -np, or set `slots` (or `gpus`) in the inventory",
        )
    return RankPlacement(np or total, tuple(hosts))


def agreed(nodes: Sequence[Node], key: str) -> str | None:
    """Return a setting that all nodes of one command line share; raise ArtifactError if they differ."""
    return _same(key, {node.name: getattr(node, key) for node in nodes})


def agreed_env(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the environment that all nodes share; raise ArtifactError for a variable in which they differ."""
    names = dict.fromkeys(name for node in nodes for name in node.env)
    values = {name: _same(f"env.{name}", {node.name: node.env.get(name) for node in nodes}) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _same(key: str, by_node: Mapping[str, str | None]) -> str | None:
    by_value = grouped((value, node) for node, value in by_node.items())
    if len(by_value) > 1:
        hidden = key.startswith("env.") and any(names_a_secret(key, value) for value in by_value)
        parts = [
            f"{'unset' if value is None else 'set' if hidden else value} on {nodeset.fold(names)}"
            for value, names in by_value.items()
        ]
        raise ArtifactError(
            f"{key} differs between nodes: {'; '.join(parts)}",
            hint="one mpirun line sets the same value for all ranks: set it under `defaults`, or use --limit",
        )
    return next(iter(by_value), None)
