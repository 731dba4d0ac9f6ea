"""Drift without a golden file: compare every node with the majority of the nodes of its kind. Pure functions.

Interface, for ``check`` and its outputs:

- ``drift(facts, nodes)`` takes the facts by node name, and the inventory's nodes (for groups and expected GPUs);
  returns the deviations, the most important first.
- ``render(deviations, names)`` returns folded text: ``gpu[01-31] ok; gpu32: NCCL 2.21, others 2.27``.

Nodes of one kind have the same architecture and GPUs. Hardware facts are compared within the inventory's groups
if these have three nodes or more, since groups often separate generations of machines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from clusterctl.documents.check import Deviation
from clusterctl.facts.comparable import ABSENT, FAMILIES, MEMORY, PARAMETER, Comparable, comparable
from clusterctl.facts.model.node import NodeFacts
from clusterctl.inventory.model import Node
from clusterctl.text.grouping import grouped

MEMORY_TOLERANCE = 0.04
"""Sizes that differ by less than this share of the larger one count as equal."""
VOTERS = 3
"""Minimum number of nodes for a meaningful majority."""
NAMED_APART = 5
"""From this many nodes on, a kernel parameter with a different value on each is a name, not a setting."""


def drift(
    facts: Mapping[str, NodeFacts],
    nodes: Iterable[Node] = (),
    compared: Mapping[str, Comparable] | None = None,
) -> tuple[Deviation, ...]:
    """Return the deviations, the most important facts first.

    ``compared`` holds the results of ``comparable`` for the nodes to compare; None compares all nodes of ``facts``.
    """
    known = {node.name: node for node in nodes}
    read = {name: comparable(of) for name, of in facts.items()} if compared is None else dict(compared)
    facts = {name: of for name, of in facts.items() if name in read}
    found: list[Deviation] = []
    for kind in _kinds(facts, known):
        groups = _by_groups(kind, known)
        labels = dict.fromkeys(label for name in kind for label in read[name].values)
        for label in labels:
            is_hardware = any(label in read[name].hardware for name in kind)
            for voters in groups if is_hardware else [kind]:
                found += _vote(label, {name: read[name] for name in voters})
    return tuple(found)


def _stem(name: str) -> str:
    return re.sub(r"\d+", "", name)


def _kinds(facts: Mapping[str, NodeFacts], known: Mapping[str, Node]) -> list[list[str]]:
    """Group nodes of the same architecture and the same GPUs.

    A node that shares its architecture and GPUs with no other node of its name's stem is treated as deviating, and
    so is a node without the GPUs that the inventory lists. It joins the largest kind that has its stem or groups.
    A node with neither (a login node among GPU nodes) is compared with nodes of its own architecture and GPUs, if
    any. Names need not be numbered (head and worker, names from MAAS): equal GPUs put nodes into one kind too.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, of in facts.items():
        gpus = sorted({f"{gpu.vendor}:{gpu.device}" for gpu in of.pci.nvidia_gpus})
        lost = not gpus and name in known and bool(known[name].gpus)
        key = (of.system.machine.or_else("unknown"), *gpus, *([f"lost by {name}"] if lost else []))
        alike.setdefault((_stem(name), *key), []).append(name)
    kinds: dict[tuple[str, ...], list[str]] = {}
    for key, names in alike.items():
        if len(names) > 1:
            kinds.setdefault(key[1:], []).extend(names)
    whole = sorted(kinds.values(), key=len, reverse=True)
    left: dict[str, tuple[str, ...]] = {}
    for key, (name, *others) in alike.items():
        if others:
            continue
        akin = next((names for names in whole if any(_akin(name, other, known) for other in names)), None)
        same = kinds.get(key[1:]) if akin is None else akin
        if same is None:
            left[name] = key
        else:
            same.append(name)
    # Nodes that all differ from each other may still be meant to be equal, if their names share a stem.
    whole += _gathered({name: key[0] for name, key in left.items()})
    placed = {name for names in whole for name in names}
    whole += _fellows({name: key[1:] for name, key in left.items() if name not in placed}, facts, known)
    order = {name: index for index, name in enumerate(facts)}
    return [sorted(names, key=order.__getitem__) for names in whole]


def _gathered(keys: Mapping[str, Hashable]) -> list[list[str]]:
    """Group names by their key; leave out names whose key is unique."""
    found = grouped((key, name) for name, key in keys.items())
    return [names for names in found.values() if len(names) > 1]


def _fellows(
    kinds: Mapping[str, tuple[str, ...]], facts: Mapping[str, NodeFacts], known: Mapping[str, Node]
) -> list[list[str]]:
    """Group nodes with unrelated names by their GPUs, and add the nodes that share their groups.

    Nodes without GPUs must share their groups, or the whole fleet must be without GPUs: a login node and a file
    server among GPU nodes are not of one kind.
    """
    some_have = any(of.pci.nvidia_gpus for of in facts.values())
    keys: dict[str, Hashable] = {}
    for name, (machine, *gpus) in kinds.items():
        groups = known[name].groups if name in known else ()
        keys[name] = (machine, *gpus) if gpus else (machine, groups or (name if some_have else ""))
    found = _gathered(keys)
    placed = {name for names in found for name in names}
    for name in [name for name in kinds if name not in placed]:
        akin = next((names for names in found if any(_akin(name, other, known) for other in names)), None)
        if akin is not None:
            akin.append(name)
    return found


def _akin(name: str, other: str, known: Mapping[str, Node]) -> bool:
    groups = known[name].groups if name in known else ()
    same_groups = bool(groups) and other in known and known[other].groups == groups
    return same_groups or _stem(name) == _stem(other)


def _by_groups(kind: list[str], known: Mapping[str, Node]) -> list[list[str]]:
    """Split a kind by the inventory's groups; groups too small for a majority vote together with others."""
    parts = grouped((known[name].groups if name in known else (), name) for name in kind)
    large = [names for names in parts.values() if len(names) >= VOTERS]
    small = [name for names in parts.values() if len(names) < VOTERS for name in names]
    if not large or not small:
        return large or [kind]
    return [*large, small] if len(small) >= VOTERS else [max(large, key=len) + small, *_without_max(large)]


def _without_max(parts: list[list[str]]) -> list[list[str]]:
    largest = max(parts, key=len)
    return [names for names in parts if names is not largest]


def _values(label: str, nodes: Mapping[str, Comparable]) -> dict[str, str]:
    """Return each node's value of a label; where a family was read, a member that it lacks is absent."""
    family = next((name for name in FAMILIES if label.startswith(f"{name} ")), None)
    found = {}
    for name, of in nodes.items():
        if label in of.values:
            found[name] = of.values[label]
        elif family is not None and family in of.families:
            found[name] = ABSENT
    return _near(found) if label == MEMORY else found


def _near(sizes: dict[str, str]) -> dict[str, str]:
    """Replace nearly equal sizes by the most frequent one of them."""
    counts = Counter(sizes.values())
    leaders: list[str] = []
    renamed: dict[str, str] = {}
    for text, _ in counts.most_common():
        size = float(text.split()[0])
        leader = next(
            (
                other
                for other in leaders
                if abs(float(other.split()[0]) - size)
                <= MEMORY_TOLERANCE * max(size, float(other.split()[0]))
            ),
            None,
        )
        if leader is None:
            leaders.append(text)
        renamed[text] = leader or text
    return {name: renamed[text] for name, text in sizes.items()}


def _vote(label: str, nodes: Mapping[str, Comparable]) -> list[Deviation]:
    values = _values(label, nodes)
    counts = Counter(values.values()).most_common()
    if len(counts) < 2:
        return []
    if (
        label.startswith(f"{PARAMETER} ")
        and len(counts) == len(values) >= NAMED_APART
        and ABSENT not in values.values()
    ):
        # Each node has its own value, so the provisioner set it on purpose (a disk's name, for example).
        return []
    holders: dict[str, tuple[str, ...]] = {
        value: tuple(name for name, said in values.items() if said == value) for value, _ in counts
    }
    if counts[0][1] > counts[1][1]:
        majority = counts[0][0]
        return [
            Deviation(fact=label, value=value, others=majority, nodes=holders[value], tie=False)
            for value, _ in counts[1:]
        ]
    return [
        Deviation(
            fact=label,
            value=value,
            others=" or ".join(other for other, _ in counts if other != value),
            nodes=holders[value],
            tie=True,
        )
        for value, _ in counts
    ]
