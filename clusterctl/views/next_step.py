"""What to type next: the way from ``check`` over ``bootstrap`` and ``bench`` to ``accept``; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.report.view import NextStep
from clusterctl.requirements.base import Owner, Status
from clusterctl.requirements.launch_ready import launch_ready
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.documents.check import ReadyToLaunch
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap


@dataclass(frozen=True, slots=True)
class Way:
    """The commands that cover the same nodes: INVENTORY and ``--limit`` as words behind each of them.

    ``choice`` are the words that choose requirements. ``has_bench``: a benchmark was recorded here.
    """

    nodes: tuple[str, ...] = ()
    choice: tuple[str, ...] = ()
    is_local: bool = False
    has_bench: bool = False

    def bootstrap(self) -> str:
        local = ("--local",) if self.is_local else ()
        return shlex.join(("clusterctl", "bootstrap", *self.nodes, *local, *self.choice))

    def onward(self, lost: Sequence[str] = ()) -> NextStep:
        """Return the command that follows if nothing is left to fix; it leaves out the nodes that are lost."""
        from clusterctl.inventory import nodeset

        verb, why = (
            ("accept", "measures all and judges it") if self.has_bench else ("bench", "measures the nodes")
        )
        without = ("--limit", nodeset.fold(f"!{name}" for name in lost)) if lost else ()
        command = shlex.join(("clusterctl", verb, *self.nodes, *without))
        return NextStep(command, f"{why} without {nodeset.fold(lost)}" if lost else why)


def after_check(verdicts: HostMap[tuple[Decision, ...]], way: Way | None) -> Iterator[NextStep]:
    """Yield what follows verdicts: bootstrap for what it meets, else the next stage if a launch can begin, and pages.

    ``way`` is None if no node can be contacted, as in a replay: then there are only pages.
    """
    fixable, others = _open(verdicts.values_by_node.values())
    if way is None:
        others += [name for name in fixable if name not in others]
    elif fixable:
        yield NextStep(way.bootstrap(), f"shows a plan for {', '.join(fixable)}, and asks")
    if way is not None and not fixable and (not others or _can_launch(verdicts)) and verdicts.values_by_node:
        yield way.onward(list(verdicts.failures))
    if others:
        yield _pages(others, "what they check") if way is None else _pages(others)


def after_bootstrap(verdicts: HostMap[tuple[Decision, ...]], way: Way) -> Iterator[NextStep]:
    """Yield what follows verdicts that bootstrap leaves as they are: the next stage, and pages of the rest."""
    fixable, others = _open(verdicts.values_by_node.values())
    rest = [*others, *(name for name in fixable if name not in others)]
    if verdicts.values_by_node and (not rest or _can_launch(verdicts)):
        yield way.onward(list(verdicts.failures))
    if rest:
        yield _pages(rest, "left to you: no further step is possible")


def _can_launch(verdicts: HostMap[tuple[Decision, ...]]) -> bool:
    """Return whether the nodes that answered surely have what a launch needs, whatever else they lack."""
    found = launch_ready(verdicts.values_by_node, 0)
    return found is not None and found.ready and not found.not_checked


def _pages(names: Sequence[str], why: str = "left to you: bootstrap has no step") -> NextStep:
    return NextStep(shlex.join(("clusterctl", "requirements", "show", *names)), why)


def _open(verdicts: Iterable[tuple[Decision, ...]]) -> tuple[list[str], list[str]]:
    """Return the requirements that bootstrap meets, and those that are left to a person or unknown, on any node."""
    fixable: dict[str, None] = {}
    others: dict[str, None] = {}
    for outcome in verdicts:
        for verdict in outcome:
            if verdict.owner is Owner.BOOTSTRAP:
                fixable[verdict.requirement] = None
            elif verdict.owner is Owner.YOU or verdict.status is Status.UNKNOWN:
                others[verdict.requirement] = None
    return list(fixable), list(others)


def ready_line(found: ReadyToLaunch | None) -> str | None:
    """Return in one line whether the nodes can launch; None if unknown."""
    if found is None:
        return None
    others = [name for name in found.missing if name not in found.bootstrap]
    why = [f"bootstrap fixes {', '.join(found.bootstrap)}"] if found.bootstrap else []
    why += [f"left to you: {', '.join(others)}"] if others else []
    why += [f"{counted(found.unreachable, 'node')} unreachable"] if found.unreachable else []
    why += [f"switched off: {', '.join(found.switched_off)}"] if found.switched_off else []
    why += [f"not checked: {', '.join(found.not_checked)}"] if found.not_checked else []
    return f"ready to launch: {'yes' if found.ready else 'no'}" + (f" ({'; '.join(why)})" if why else "")
