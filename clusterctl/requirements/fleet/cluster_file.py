"""``cluster-file``: the file that lists the nodes for a topology-aware library has the inventory's content."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.fleet.votes import OncePerFleet
from clusterctl.requirements.steps import WriteFile
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "cluster-file"
TITLE = "The cluster file has the content of the inventory"
READS = frozenset({"configuration", "services"})
ABOUT = About(
    checks=(
        "the file for topology-aware libraries has the content that the inventory sets; "
        "the provider's rdma-service runs where it is installed"
    ),
    why=(
        "without the file, or with that of another cluster, a library such as ACCL does not use its "
        "topology-aware algorithms, and reports no error"
    ),
    bootstrap="writes the file",
    undo="restores the former file, or removes the new one",
    settings=("requirements.cluster_file",),
)


_SERVICE = "rdma-service.service"
_RUNNING = ("active", "reloading")


def _service(facts: NodeFacts, path: str, *, writes: bool) -> tuple[str, ...]:
    """Return a warning if the provider's service, which keeps the file, does not run, or would undo what we write."""
    unit = facts.services.unit(_SERVICE)
    if unit is None:
        return ()
    if unit.active not in _RUNNING:
        return (
            f"{_SERVICE} is {unit.active}, so {path} may be out of date: journalctl -u rdma-service shows why",
        )
    if writes:
        return (f"{_SERVICE} runs and keeps {path} itself: leave `cluster_file` out of the inventory",)
    return ()


def _sum(facts: NodeFacts, path: str) -> str | None:
    """Return the SHA-256 of the node's file, or None if the file does not exist."""
    return next((file.sha256 for file in facts.rdma_files.or_else(()) if file.path == path), None)


def _unread(facts: NodeFacts) -> bool:
    return facts.rdma_files.is_unknown


def _count(fleet: Fleet) -> dict[str | None, Counter[str]]:
    """Count the SHA-256 sums of each path over the fleet; the key None holds the number of nodes that could be read."""
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
    """Return a warning if this node's file differs from most nodes' and the inventory sets no content."""
    counted = _sums(fleet)
    nodes, sums = counted[None]["nodes"], counted.get(path, Counter())
    without = nodes - sums.total()
    most, count = sums.most_common(1)[0] if sums else (None, 0)
    if without > count:
        most, count = None, without
    if most == own or count == nodes or sums[own or ""] == count:
        return ()
    what = "no such file" if own is None else f"a different {path}" if most is not None else f"a {path}"
    has = "none" if most is None else "identical files"
    return (f"this node has {what}; {count} of {nodes} nodes have {has}",)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if the file's SHA-256 is that of the inventory's content.

    Without content in the inventory, only differences between nodes are reported, as warnings.
    """
    settings = node.requirements.cluster_file
    reading = facts.rdma_files
    if _unread(facts):
        if settings.content is None:
            return Decision(
                NAME,
                Status.NOT_APPLICABLE,
                "the inventory sets no content for it",
                warnings=_service(facts, settings.path, writes=False),
            )
        return Decision(NAME, Status.UNKNOWN, because(f"the SHA-256 of {settings.path}", reading))
    found = _sum(facts, settings.path)
    evidence: dict[str, Json] = {"path": settings.path, "sha256": found}
    if settings.content is None:
        warnings = (
            *_unlike(found, settings.path, fleet),
            *_service(facts, settings.path, writes=False),
        )
        return Decision(
            NAME, Status.NOT_APPLICABLE, "the inventory sets no content for it", evidence, warnings
        )
    wanted = hashlib.sha256(settings.content.encode()).hexdigest()
    evidence["wanted"] = wanted
    if found == wanted:
        warnings = _service(facts, settings.path, writes=False)
        return Decision(
            NAME, Status.MET, f"{settings.path} has the content of the inventory", evidence, warnings
        )
    reason = f"{settings.path} " + (
        "does not exist" if found is None else "has other content than the inventory"
    )
    stray = [
        file.path for file in reading.or_else(()) if file.path != settings.path and file.sha256 == wanted
    ]
    if stray:
        reason += f" (found that content in {some(stray)})"
    step = WriteFile(f"Write {settings.path}", settings.path, settings.content)
    warnings = _service(facts, settings.path, writes=True)
    return Decision(NAME, Status.UNMET, reason, evidence, warnings, steps=(step,))
