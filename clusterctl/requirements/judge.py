"""Judge a node against requirements chosen by name (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from clusterctl.errors import UsageError
from clusterctl.requirements.base import Decision, Owner, Requirement
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node


def validate_names(only: Iterable[str] | None, skip: Iterable[str]) -> None:
    """Raise UsageError if a name is not a requirement."""
    unknown = sorted({*(only or ()), *skip} - set(ALL))
    if unknown:
        close = [near for name in unknown for near in get_close_matches(name, ALL, n=1)]
        meant = f"did you mean {' and '.join(close)}? " if close else ""
        raise UsageError(
            f"unknown requirement{'s' if len(unknown) > 1 else ''}: {', '.join(unknown)}",
            hint=f"{meant}requirements are: {', '.join(ALL)}",
        )


def refuse_nothing_to_judge(
    nodes: Iterable[Node],
    only: Iterable[str] | None,
    skip: Iterable[str],
) -> None:
    """Raise UsageError if no requirement is left for any node: an empty table would look like a healthy fleet."""
    wanted = (set(ALL) if only is None else set(only)) - set(skip)
    if not wanted:
        raise UsageError("no requirement is left to judge", hint="--skip leaves out all chosen requirements")
    if all(wanted <= set(node.requirements.skip) for node in nodes):
        named = ", ".join(name for name in ALL if name in wanted)
        raise UsageError(
            f"no requirement is left to judge: the inventory skips {named} on every node",
            hint="remove it from requirements.skip, or choose others with --only",
        )


def subjects_read(only: Iterable[str] | None, skip: Iterable[str] = ()) -> frozenset[str] | None:
    """Return the subjects to probe for the chosen requirements; None: all subjects.

    A check of all requirements probes everything, because it also compares nodes with each other.
    """
    if only is None:
        return None
    chosen = set(only) - set(skip)
    return frozenset().union(*(ALL[name].READS for name in ALL if name in chosen))


def judge_node(
    facts: NodeFacts,
    node: Node,
    only: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    requirements: Mapping[str, Requirement] = ALL,
    fleet: Fleet | None = None,
) -> tuple[Decision, ...]:
    """Return the decisions about a node in catalogue order; without a ``fleet`` the node is judged alone.

    ``only`` None means all requirements. Those skipped on the command line or in the inventory are left out.
    """
    left_out = {*skip, *node.requirements.skip}
    wanted = set(requirements) if only is None else set(only)
    together = fleet or Fleet((node,), {node.name: facts})
    return _with_owners(
        requirement.decide(facts, node, together)
        for name, requirement in requirements.items()
        if name in wanted and name not in left_out
    )


def _with_owners(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return a node's decisions; one that follows a requirement which bootstrap does not meet here is left to a person.

    The followed requirement precedes the one that follows it, as in the catalogue.
    """
    judged: dict[str, Decision] = {}
    for decision in decisions:
        first = judged.get(decision.follows)
        follows = decision.follows in ("", decision.requirement) or (
            first is not None and first.owner is Owner.BOOTSTRAP
        )
        why = decision.no_step or f"{decision.follows} must be met first"
        judged[decision.requirement] = decision if follows else replace(decision, follows="", no_step=why)
    return tuple(judged.values())
