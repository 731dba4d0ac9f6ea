"""``python``: launches find a Python with collective_core or torch, at the same path on every node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from clusterctl import core_wheel
from clusterctl.facts.model.python import OLDEST_TORCH, NodePython, PythonFacts, is_old_torch
from clusterctl.facts.subjects.python import ENVIRONMENT, INTERPRETER
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status, switched_off
from clusterctl.requirements.fleet.votes import OncePerFleet
from clusterctl.requirements.gpus import own_gpus
from clusterctl.requirements.packages import by_hand, install, manager
from clusterctl.requirements.steps import MakeVenv, Step
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "python"
TITLE = "Launches find a Python with collective_core or torch"
READS = frozenset({"pci", "python", "software", "system"})
ABOUT = About(
    checks=(
        "with several nodes: the Python of a launch is 3.10 or newer, has collective_core or torch (with GPUs: torch), "
        "and is at the same path on every node"
    ),
    why=(
        "`bench`, `locate` and `accept` start their programs with this Python; without collective_core or torch "
        "nothing can be measured"
    ),
    bootstrap=(
        f"makes the environment `{ENVIRONMENT}` with this machine's collective_core, on nodes with GPUs with torch"
    ),
    undo="removes the environment and the packages that bootstrap added",
    settings=("requirements.python", "requirements.packages", "python"),
)
OLDEST = (3, 10)
"""The oldest Python that collective_core and clusterctl's programs for nodes run on."""
_TORCH = "torch"
_OLD_RELEASES = {"debian": 12, "ubuntu": 22}
"""By distribution, the first release whose python3 is new enough."""
_ON_RHEL = ("8", "9")
"""Releases of the RHEL family whose python3 is too old, and which have a newer one in a package of its own."""


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if the Python that a launch would use has what the node needs, at the path that the fleet uses."""
    settings = node.requirements.python
    if settings.require is False:
        return switched_off(NAME, "requirements.python.require")
    if not settings.require and not fleet.launches_across:
        why = "the inventory has only one node; set requirements.python.require: true to check its Python"
        return Decision(NAME, Status.NOT_APPLICABLE, why)
    if facts.python.is_unknown:
        return Decision(NAME, Status.UNKNOWN, because("the Python of ranks", facts.python))
    if facts.pci.devices.value is None and settings.packages is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices))
    found = facts.python.or_else(NodePython())
    ranks, common = found.ranks, _common_path(fleet)
    evidence: dict[str, Json] = {
        "python": ranks.path if ranks else None,
        "version": ranks.version if ranks else None,
        "torch": ranks.torch if ranks else None,
        "collective_core": ranks.core_perf if ranks else None,
        "path_of_fleet": common,
    }
    lacks = _lacks(facts, node)
    if ranks is not None and not lacks and ranks.path == common:
        return Decision(NAME, Status.MET, _described(ranks), evidence)
    if ranks is None or lacks:
        reason = lacks
    else:
        reason = f"{_described(ranks)}, but other nodes need {common}, and a launch needs the same path on all nodes"
    why, steps = _steps(facts, node, fleet, found, common)
    return Decision(NAME, Status.UNMET, reason, evidence, steps=steps, no_step=why)


def _wanted(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return what pip shall install besides collective_core: the inventory's choice, or torch on nodes with GPUs."""
    chosen = node.requirements.python.packages
    if chosen is not None:
        return chosen
    return (_TORCH,) if own_gpus(facts) else ()


def _needs_torch(facts: NodeFacts, node: Node) -> bool:
    return any(_name_of(package) == _TORCH for package in _wanted(facts, node))


def _name_of(requirement: str) -> str:
    """Return the name in a requirement of pip: ``torch`` in ``torch==2.11.*``."""
    length = next((at for at, c in enumerate(requirement) if not (c.isalnum() or c in "._-")), None)
    return requirement[:length].lower()


def _lacks(facts: NodeFacts, node: Node) -> str:
    """Return what the Python of ranks lacks on a node whose facts are known; empty if it lacks nothing."""
    found = facts.python.or_else(NodePython())
    ranks = found.ranks
    if ranks is None:
        return f"{node.python or 'python3'} was not found"
    oldest = ".".join(map(str, OLDEST))
    if ranks.path == INTERPRETER and found.environment is not None and not found.environment.is_complete:
        return f"{ENVIRONMENT} is incomplete, because its installation was interrupted"
    if ranks.release is None:
        return f"{ranks.path} does not run, or lacks parts of its standard library"
    if ranks.release < OLDEST:
        return f"{ranks.path} is Python {ranks.version}; {oldest} or newer is needed"
    if _needs_torch(facts, node):
        if ranks.torch is None:
            return f"{ranks.path} has no torch"
        if is_old_torch(ranks.torch):
            return (
                f"{ranks.path} has torch {ranks.torch}; {'.'.join(map(str, OLDEST_TORCH))} or newer is needed"
            )
    elif ranks.torch is None and ranks.core_perf is None:
        return f"{ranks.path} has neither collective_core nor torch"
    content = content_of(_wanted(facts, node))
    if ranks.path == INTERPRETER and found.environment is not None and found.environment.differs(content):
        return f"{ENVIRONMENT} was made with other packages than requirements.python.packages names"
    return ""


def _described(ranks: PythonFacts) -> str:
    parts = [f"torch {ranks.torch}"] if ranks.torch else []
    if ranks.core_perf:
        parts.append("collective_core")
    return f"{ranks.path} is Python {ranks.version} with {' and '.join(parts)}"


def content_of(packages: tuple[str, ...]) -> str:
    """Return what an environment records of its content, so that a changed choice is noticed."""
    return " ".join(("made", *packages))


def _find_common_path(fleet: Fleet) -> str:
    """Return the path that the Python of ranks shall have on all nodes.

    It is that of clusterctl's environment if a node uses it, else the one that more than half of the nodes can use,
    else clusterctl's, which bootstrap then makes on each node.
    """
    nodes = {node.name: node for node in fleet.nodes}
    paths = Counter(_usable_path(facts, nodes.get(name)) for name, facts in fleet.facts.items())
    del paths[None]
    asked = sum(1 for name in fleet.facts if name in nodes)
    if INTERPRETER in paths:
        return INTERPRETER
    for path, count in paths.most_common(1):
        if path is not None and count * 2 > asked:
            return path
    return INTERPRETER


def _usable_path(facts: NodeFacts, node: Node | None) -> str | None:
    """Return the path of the Python of ranks; None if it cannot be used, or the node's requirement is switched off."""
    ranks = facts.python.or_else(NodePython()).ranks
    if node is None or node.requirements.python.require is False or ranks is None:
        return None
    return None if _lacks(facts, node) else ranks.path


_common_path = OncePerFleet(_find_common_path)


def _steps(
    facts: NodeFacts, node: Node, fleet: Fleet, found: NodePython, common: str
) -> tuple[str, tuple[Step, ...]]:
    """Return why bootstrap does not make the environment, or the steps that make it."""
    why = _left_to_you(node, found, common)
    core, why_no_core = _core(facts, found, fleet)
    packages = _wanted(facts, node)
    if not why and core is None and not _needs_torch(facts, node):
        why = why_no_core
    base, why_no_base, names = _base(facts, found, bool(packages))
    why = why or why_no_base
    if why:
        return why, ()
    steps: list[Step] = []
    if names:
        package = install(facts, node, f"Install {' and '.join(names)}", *names)
        if package is None:
            return f"{by_hand(facts, 'Python with its module venv')}"[2:], ()
        steps.append(package)
    parts = " and ".join((*([core_wheel.NAME] if core else []), *packages))
    steps.append(
        MakeVenv(
            f"Make {ENVIRONMENT} with {parts}",
            ENVIRONMENT,
            base,
            content_of(packages),
            core.file_name if core else "",
            packages,
            node.requirements.python.index_url or "",
        )
    )
    return "", tuple(steps)


def _left_to_you(node: Node, found: NodePython, common: str) -> str:
    """Return why bootstrap makes no environment of its own on this node; empty if it may."""
    if node.python not in (None, INTERPRETER):
        return (
            "the inventory names `python`; install it there, or remove `python` so that bootstrap makes "
            f"{ENVIRONMENT}"
        )
    if node.python is None and node.connection == "local":
        return (
            f"ranks on this machine use clusterctl's own Python; set `python: {INTERPRETER}` to have one made"
        )
    if node.python is None and common != INTERPRETER:
        return f"most nodes use {common}; install it here too, or set `python: {INTERPRETER}` for all nodes"
    if found.environment is not None and found.environment.run is None:
        return f"{ENVIRONMENT} exists, and clusterctl did not make it; remove it, or name its interpreter by `python`"
    return ""


def _core(facts: NodeFacts, found: NodePython, fleet: Fleet) -> tuple[core_wheel.Carried | None, str]:
    """Return the collective_core that the node can have, or why it can have none."""
    carried = fleet.core
    machine = facts.system.machine.value
    if carried is None:
        return None, f"this machine has no {core_wheel.NAME} to copy to the nodes: {core_wheel.INSTALL}"
    if machine is not None and carried.machine != machine:
        return None, f"this machine's {core_wheel.NAME} is built for {carried.machine}, the node is {machine}"
    if carried.glibc is not None and found.glibc is not None:
        own = tuple(map(int, found.glibc.split(".")[:2]))
        if own < carried.glibc:
            needed = ".".join(map(str, carried.glibc))
            return (
                None,
                f"this machine's {core_wheel.NAME} needs glibc {needed}, the node has {found.glibc}",
            )
    return carried, ""


def _base(facts: NodeFacts, found: NodePython, needs_pip: bool) -> tuple[str, str, tuple[str, ...]]:
    """Return the interpreter to make the environment with, why there is none, and the packages that bring it."""
    able = [
        one
        for one in found.distribution
        if (3, one.minor) >= OLDEST and one.has_venv and (one.has_ensurepip or not needs_pip)
    ]
    for one in sorted(able, key=lambda one: (not one.is_default, -one.minor)):
        return one.path, "", ()
    system, found_manager = facts.system.os.value, manager(facts)
    release = _major(system.version_id) if system is not None else 0
    if found_manager == "dnf":
        if system is not None and system.family == "rhel" and system.id != "fedora":
            if str(release) in _ON_RHEL:
                return "/usr/bin/python3.12", "", ("python3.12",)
            if system.id == "amzn":
                return "/usr/bin/python3.11", "", ("python3.11",)
        return "/usr/bin/python3", "", ("python3",)
    if found_manager != "apt":
        return "", by_hand(facts, "Python 3.10 or newer with its module venv").removeprefix("; "), ()
    default = next((one for one in found.distribution if one.is_default), None)
    first = _OLD_RELEASES.get(system.id, 0) if system is not None else 0
    if (3, default.minor) < OLDEST if default is not None else 0 < release < first:
        name = system.pretty_name if system is not None else "the distribution"
        return "", f"the Python of {name} is older than 3.10; set `python` to a newer one", ()
    # python3-venv brings ensurepip, and depends on python3.
    return "/usr/bin/python3", "", ("python3-venv" if needs_pip else "python3",)


def _major(version: str) -> int:
    digits = version.partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 6 else 0
