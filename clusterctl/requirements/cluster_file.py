"""``cluster-file``: the file that tells a topology-aware library which nodes there are is the one wanted."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from clusterctl.requirements.base import Json, Status, Step, Verdict, WriteFile
from clusterctl.requirements.votes import OncePerFleet
from clusterctl.requirements.wording import because, some

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet import Fleet

NAME = "cluster-file"
TITLE = "The cluster file is the one wanted"
READS = frozenset({"configuration"})


def _sum(facts: NodeFacts, path: str) -> str | None:
    """The SHA-256 of the node's file, or None where there is none."""
    return next((file.sha256 for file in facts.rdma_files.or_else(()) if file.path == path), None)


def _unread(facts: NodeFacts) -> bool:
    return facts.rdma_files.is_unknown


def _count(fleet: Fleet) -> dict[str | None, Counter[str]]:
    """Count the sums of each path over the fleet; None counts the nodes that could be read at all."""
    found: dict[str | None, Counter[str]] = {None: Counter()}
    for facts in fleet.facts.values():
        if _unread(facts):
            continue
        found[None]["nodes"] += 1
        for file in facts.rdma_files.or_else(()):
            found.setdefault(file.path, Counter())[file.sha256] += 1
    return found


_sums = OncePerFleet(_count)


def _unlike(own: str | None, path: str, fleet: Fleet) -> tuple[str, ...]:
    """Say that nodes hold different files, where nobody said which one is right."""
    counted = _sums(fleet)
    nodes, sums = counted[None]["nodes"], counted.get(path, Counter())
    without = nodes - sums.total()
    most, count = sums.most_common(1)[0] if sums else (None, 0)
    if without > count:
        most, count = None, without
    if most == own or count == nodes or sums[own or ""] == count:
        return ()
    what = "no such file" if own is None else f"another {path}" if most is not None else f"a {path}"
    has = "none" if most is None else "the same one"
    return (f"this node has {what}; {count} of {nodes} nodes have {has}",)


def judge(facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
    """Met when the file's SHA-256 is that of the inventory's content; without one only differences are told."""
    settings = node.requirements.cluster_file
    reading = facts.rdma_files
    if _unread(facts):
        if settings.content is None:
            return Verdict(NAME, Status.NOT_APPLICABLE, "the inventory names no content for it")
        return Verdict(NAME, Status.UNKNOWN, because(f"the SHA-256 of {settings.path}", reading))
    found = _sum(facts, settings.path)
    evidence: dict[str, Json] = {"path": settings.path, "sha256": found}
    if settings.content is None:
        warnings = _unlike(found, settings.path, fleet)
        return Verdict(
            NAME, Status.NOT_APPLICABLE, "the inventory names no content for it", evidence, warnings
        )
    wanted = hashlib.sha256(settings.content.encode()).hexdigest()
    evidence["wanted"] = wanted
    if found == wanted:
        return Verdict(NAME, Status.MET, f"{settings.path} is as the inventory wants it", evidence)
    reason = f"{settings.path} " + ("is not there" if found is None else "holds something else")
    stray = [
        file.path for file in reading.or_else(()) if file.path != settings.path and file.sha256 == wanted
    ]
    if stray:
        reason += f" (its content stands in {some(stray)})"
    return Verdict(NAME, Status.UNMET, reason, evidence)


def steps(facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
    """Write the file, with the old one kept in the journal."""
    settings = node.requirements.cluster_file
    if judge(facts, node, fleet).status is not Status.UNMET or settings.content is None:
        return ()
    return (WriteFile(f"Write {settings.path}", settings.path, settings.content),)
