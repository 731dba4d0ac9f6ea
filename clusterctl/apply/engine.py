"""The data of a bootstrap: how its nodes are reached, what is allowed, the facts, the verdicts and the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clusterctl import core_wheel
from clusterctl.apply import script
from clusterctl.apply.execute import NodeOutcome, StepOutcome
from clusterctl.apply.journal import Options
from clusterctl.apply.plan import build
from clusterctl.apply.plan.model import NodePlan, Plan
from clusterctl.apply.watch import SILENT, StepWatch
from clusterctl.facts.catalog import SAME_FOR_EVERY_LOGIN
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Inventory, Node
from clusterctl.requirements import judge
from clusterctl.requirements.base import Decision, Requirement
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.fleet.view import Fleet
from clusterctl.transport.answers import map_understood
from clusterctl.transport.base import Failure, HostMap, Transport
from clusterctl.transport.kept import Kept

Gather = Callable[[Inventory], "HostMap[NodeFacts]"]
"""Gathers the facts of all nodes of an inventory, over connections of ``Engine.kept`` where possible."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How nodes are reached and read, which requirements they must meet, and which changes are allowed.

    ``timeout_s`` bounds one exec of steps, ``node_timeout_s`` all work on one node including reboots.
    ``return_wait_s`` is how long to wait for a lost node, to distinguish a reboot from a broken connection.
    """

    connect: Callable[[Node], Transport]
    gather: Gather
    fanout: int
    timeout_s: float
    requirements: Mapping[str, Requirement] = field(default_factory=lambda: ALL)
    state_dir: str = script.STATE_DIR
    node_timeout_s: float | None = None
    reboot: bool = False
    force_reboot: bool = False
    lock_wait_s: int = script.LOCK_WAIT_S
    return_wait_s: float = 15.0
    earlier: Mapping[str, NodeFacts] = field(default_factory=dict)
    """Facts of former runs, as judges receive them."""
    subjects: frozenset[str] | None = None
    """The subjects that ``gather`` collects; None: all."""
    kept: Kept = field(default_factory=Kept)
    """The connections shared by gathering facts and applying steps; empty by default."""
    watch: StepWatch = SILENT

    @property
    def sees_through_old_logins(self) -> bool:
        """Whether all gathered subjects read the same over a connection that was opened before a change."""
        return self.subjects is not None and self.subjects <= SAME_FOR_EVERY_LOGIN


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan to apply, with the facts and verdicts that it is based on."""

    inventory: Inventory
    options: Options
    facts: HostMap[NodeFacts]
    verdicts: HostMap[tuple[Decision, ...]]
    plan: Plan
    before: Mapping[str, tuple[StepOutcome, ...]]
    """Steps that an earlier part of the same run completed."""
    left_over: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node, the keys of planned steps that earlier parts left unfinished and no requirement needs any more."""
    busy: Mapping[str, Failure] = field(default_factory=dict)
    """The nodes on which another run works, which the plan leaves out."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of each node, and its verdicts afterwards."""

    outcomes: Mapping[str, NodeOutcome]
    verdicts: HostMap[tuple[Decision, ...]]
    rounds: int = 1
    changed: Mapping[str, tuple[StepOutcome, ...]] = field(default_factory=dict)
    """By node, the steps that any part of a resumed run changed; the nodes' journals may add some to ``before``."""

    @property
    def needs_reboot(self) -> bool:
        """Whether a node must reboot that this run did not reboot."""
        return any(step.needs_reboot for outcome in self.outcomes.values() for step in outcome.steps)


def fleet_of(engine: Engine, inventory: Inventory, facts: HostMap[NodeFacts]) -> Fleet:
    """Return the nodes of an inventory with their facts, as judges receive them."""
    everyone = (*inventory.nodes, *inventory.beyond)
    return Fleet(everyone, facts.values_by_node, engine.earlier, inventory.launcher, core_wheel.carried())


def judged(
    engine: Engine, inventory: Inventory, options: Options, facts: HostMap[NodeFacts]
) -> HostMap[tuple[Decision, ...]]:
    """Judge every node that answered, in the context of its fleet; pure."""
    fleet = fleet_of(engine, inventory, facts)
    nodes = {node.name: node for node in inventory.nodes}
    return map_understood(
        facts,
        "its facts",
        lambda name, found: judge.judge_node(
            found, nodes[name], options.only, options.skip, engine.requirements, fleet
        ),
    )


def planned(inventory: Inventory, verdicts: HostMap[tuple[Decision, ...]]) -> Plan:
    """Plan for every node that answered; pure. Raises PlanError if steps contradict each other."""
    seen = verdicts.values_by_node
    return Plan(
        tuple(build.build(node.name, seen[node.name]) for node in inventory.nodes if node.name in seen)
    )


def named(plan: NodePlan) -> dict[str, tuple[str, str]]:
    """Map the key of each step to its requirement and description."""
    return {script.step_key(p): (p.requirement, p.step.description) for p in plan.steps}


def merge(stored: Plan, fresh: Plan) -> Plan:
    """Return all steps that a run ever planned; content and order of ``fresh`` take precedence.

    A step that is no longer planned stays before the steps that it preceded, so that a restart follows the files of
    every round.
    """
    old, new = ({node.node: node for node in plan.nodes} for plan in (stored, fresh))
    return Plan(
        tuple(
            _merged(old.get(name, NodePlan(name, ())), new.get(name, NodePlan(name, ())))
            for name in dict.fromkeys((*old, *new))
        )
    )


def _merged(stored: NodePlan, fresh: NodePlan) -> NodePlan:
    place = {script.step_key(p): number for number, p in enumerate(stored.steps)}
    steps = {script.step_key(p): p for p in fresh.steps}
    keys = list(steps)
    for p in stored.steps:
        key = script.step_key(p)
        if key not in steps:
            behind = (at for at, other in enumerate(keys) if place.get(other, -1) > place[key])
            keys.insert(next(behind, len(keys)), key)
            steps[key] = p
    return NodePlan(stored.node, tuple(steps[key] for key in keys))
