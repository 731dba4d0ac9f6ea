"""A plan as text: one line per change with its sign, diffs of files, and one block for nodes that show the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from clusterctl.apply.carry import package_of, version_of
from clusterctl.inventory import nodeset
from clusterctl.plan import file_diff
from clusterctl.report.text import table
from clusterctl.report.text.folding import shape
from clusterctl.report.text.wrapping import wrapped
from clusterctl.requirements.steps import (
    EnableUnit,
    InstallPackages,
    LoadModule,
    MakeVenv,
    PutTree,
    Reboot,
    RestartUnit,
    SetRegister,
    WriteBlock,
    WriteFile,
    WriteValue,
)
from clusterctl.wording import counted

if TYPE_CHECKING:
    from clusterctl.apply.carry import Folder
    from clusterctl.plan.file_diff import Present
    from clusterctl.plan.model import NodePlan, Plan, PlannedStep

ADD, CHANGE, LEAVE = "+", "~", "."
"""The sign of a line, besides ``-``; a line with LEAVE changes nothing."""
_DETAILS = 3
"""The most different diffs of one change that are shown in a block."""
_VALUE_CHARACTERS = 40
_PROCESSOR = re.compile(r"\bcpu\d+\b")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one node as people read it; ``details`` are the lines below it, such as a diff."""

    sign: str
    requirement: str
    text: str
    details: tuple[str, ...] = field(default=(), compare=False)
    restarts: str = ""
    """The service that restarts."""
    reboots: bool = False
    was: str = field(default="", compare=False)
    """The value before, where it is short."""


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """The changes of one node."""

    node: str
    changes: tuple[Change, ...]
    head: str = ""
    """Text behind the names of the nodes, such as the run to undo."""


def change_of(
    planned: PlannedStep, present: Mapping[str, Present], copied: Mapping[str, Folder], *, first: bool
) -> Change:
    """Return how one step of a plan is shown.

    ``present``: the files that the node has, as far as they are known. ``copied``: the package directories that are
    copied to the node. ``first``: whether no step before this one installs from its directory.
    """
    step = planned.step
    sign, more, was = CHANGE, "", ""
    details: tuple[str, ...] = ()
    if isinstance(step, (WriteFile, WriteBlock)):
        sign, more = _file(step, present.get(step.path))
        details = file_diff.shown(step, present.get(step.path))
    elif isinstance(step, (WriteValue, SetRegister)):
        # The kernel separates the numbers of a value with tabs.
        was = " ".join(step.prior.split()) if len(step.prior) <= _VALUE_CHARACTERS else ""
    elif isinstance(step, InstallPackages):
        sign, details = ADD, _packages(step, copied.get(step.folder or ""), first=first)
    elif isinstance(step, (LoadModule, EnableUnit, PutTree, MakeVenv)):
        sign = ADD
    return Change(
        sign,
        planned.requirement,
        f"{step.description} ({more})" if more else step.description,
        details,
        step.unit if isinstance(step, RestartUnit) else "",
        isinstance(step, Reboot),
        was,
    )


def _file(step: WriteFile | WriteBlock, present: Present | None) -> tuple[str, str]:
    """Return the sign of a written file, and what its diff does not show: a new file, another mode, or no change."""
    mode = f"{step.mode:o}"
    if present is None:
        return ADD, ""
    if not present.exists:
        return ADD, f"new file, mode {mode}"
    if isinstance(step, WriteFile) and present.mode is not None and present.mode != step.mode:
        return CHANGE, f"mode {present.mode:o} -> {mode}"
    if present.text == file_diff.after(step, present):
        # An interrupted run may have written the file before its journal recorded the end of the step.
        return LEAVE, "already as planned"
    return CHANGE, ""


def _packages(step: InstallPackages, folder: Folder | None, *, first: bool) -> tuple[str, ...]:
    if folder is not None:
        versions = {package_of(file): version_of(file) for file, _ in folder.sums}
        named = " ".join(f"{name} {versions.get(name, '')}".rstrip() for name in step.packages)
        size = f"{counted(len(folder.sums), 'file')}, {table.size(sum(folder.sizes))}"
        copies = (f"note: {size}, copied to each node from {folder.path}",) if first else ()
        return (f"packages: {named}", *copies)
    words = set(re.split(r"[\s,]+", step.description))
    return () if words.issuperset(step.packages) else (f"packages: {' '.join(step.packages)}",)


def changes_of(
    plan: Plan,
    present: Mapping[str, Mapping[str, Present]],
    copied: Mapping[str, Mapping[str, Folder]] = MappingProxyType({}),
) -> tuple[NodeChanges, ...]:
    """Return how the plan of each node is shown; ``present`` and ``copied`` are by node, as in ``change_of``."""
    return tuple(
        _changes_of(node, present.get(node.node, {}), copied.get(node.node, {})) for node in plan.nodes
    )


def _changes_of(node: NodePlan, present: Mapping[str, Present], copied: Mapping[str, Folder]) -> NodeChanges:
    seen: set[str | None] = set()
    changes: list[Change] = []
    for planned in node.steps:
        folder = planned.step.folder if isinstance(planned.step, InstallPackages) else None
        changes.append(change_of(planned, present, copied, first=folder not in seen))
        seen.add(folder)
    return NodeChanges(node.node, tuple(changes))


def without_details(change: Change) -> Change:
    """Return a change for the list of what was done, without its diff."""
    return replace(change, details=())


def blocks(nodes: Iterable[NodeChanges], width: int | None = None) -> str:
    """Return a block for each distinct list of changes: the names of its nodes, then a line per change.

    Nodes without changes are left out. ``width`` wraps these lines, but not those of diffs; None: never, for text that
    programs read.
    """
    alike: dict[tuple[object, ...], list[NodeChanges]] = {}
    for node in (replace(found, changes=_joined(found.changes)) for found in nodes if found.changes):
        alike.setdefault((node.head, *node.changes), []).append(node)
    return "\n\n".join(_block(found, width) for found in alike.values())


def _joined(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes with adjacent ones joined that differ only in the processor's number."""
    joined: list[Change] = []
    for _, group in groupby(changes, lambda c: (c.sign, c.requirement, _PROCESSOR.sub("cpu", c.text))):
        members = list(group)
        found = [match[0] for change in members if (match := _PROCESSOR.search(change.text))]
        if len(members) > 1 and len(found) == len(members):
            names = nodeset.fold(found)
            text = _PROCESSOR.sub(lambda _: names, members[0].text, count=1)  # noqa: B023 - used at once
            same = len({change.was for change in members}) == 1
            joined.append(replace(members[0], text=text, was=members[0].was if same else ""))
        else:
            joined += members
    return tuple(joined)


def _block(nodes: Sequence[NodeChanges], columns: int | None) -> str:
    names = [node.node for node in nodes]
    first = nodes[0]
    title = nodeset.fold_counted(names, " nodes")
    title = f"{title}: {first.head}" if first.head else title
    width = max(len(change.requirement) for change in first.changes)
    lines = [f"{title}:"]
    for index, change in enumerate(first.changes):
        was = _was([node.changes[index].was for node in nodes])
        line = f"  {change.sign} {change.requirement.ljust(width)}  {change.text}{was}"
        lines += wrapped(line, columns, indent=width + 6)
        for detail in _details({n.node: n.changes[index].details for n in nodes}):
            is_note = detail.startswith("note: ")
            lines += wrapped(f"      {detail}", columns, indent=8) if is_note else [f"      {detail}"]
    return "\n".join(lines)


def _was(values: Iterable[str]) -> str:
    """Return the former values of a change on the nodes of a block, in parentheses."""
    different = list(dict.fromkeys(filter(None, values)))
    if len(different) > _DETAILS:
        return f" (was {different[0]}; the others differ)"
    return f" (was {' or '.join(different)})" if different else ""


def _details(by_node: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the lines below a change; nodes whose lines differ only in names and numbers share them."""
    kinds: dict[str, tuple[tuple[str, ...], list[str], bool]] = {}
    for node, lines in by_node.items():
        first, names, differs = kinds.setdefault(shape("\n".join(lines)), (lines, [], False))
        names.append(node)
        kinds[shape("\n".join(lines))] = (first, names, differs or lines != first)
    found: list[str] = []
    for lines, names, differs in list(kinds.values())[:_DETAILS]:
        if len(kinds) > 1 and lines:
            found.append(f"on {nodeset.fold(names)}:")
        found += lines
        if differs and lines:
            found.append(f"(of {names[0]}; the others differ in names or numbers)")
    more = len(kinds) - _DETAILS
    return [*found, f"... {more} more variants on other nodes"] if more > 0 else found


def _busy(nodes: Iterable[NodeChanges]) -> list[list[Change]]:
    """Return the changes of each node that has any."""
    busy = [[c for c in node.changes if c.sign != LEAVE] for node in nodes]
    return [changes for changes in busy if changes]


def work_of(nodes: Iterable[NodeChanges]) -> str:
    """Return the number of changes and nodes: ``20 changes on 4 nodes``."""
    busy = _busy(nodes)
    return (
        f"{counted(sum(map(len, busy)), 'change')} on {counted(len(busy), 'node')}" if busy else "no changes"
    )


def size_of(nodes: Sequence[NodeChanges]) -> str:
    """Return the size of the work: ``20 changes on 4 nodes, 2 restarts, 0 reboots``."""
    every = [change for changes in _busy(nodes) for change in changes]
    if not every:
        return work_of(nodes)
    restarts, reboots = sum(bool(c.restarts) for c in every), sum(c.reboots for c in every)
    return f"{work_of(nodes)}, {counted(restarts, 'restart')}, {counted(reboots, 'reboot')}"


def disturbed(nodes: Iterable[NodeChanges]) -> list[str]:
    """Return a line with the services that restart and their nodes, and one with the nodes that reboot."""
    units: dict[str, list[str]] = {}
    boots = []
    for node in nodes:
        for unit in dict.fromkeys(change.restarts for change in node.changes if change.restarts):
            units.setdefault(unit, []).append(node.node)
        if any(change.reboots for change in node.changes):
            boots.append(node.node)
    told = [f"{unit} on {nodeset.fold(names)}" for unit, names in units.items()]
    lines = [f"Services that restart: {'; '.join(told)}"] if told else []
    return [*lines, f"Nodes that reboot: {nodeset.fold(boots)}"] if boots else lines
