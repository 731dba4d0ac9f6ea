"""The changes of ``bootstrap`` and ``undo``: signs, diffs of files, and one block for nodes that show the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from clusterctl.apply.carry import package_of, version_of
from clusterctl.apply.plan import file_diff
from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.text.folding import shape
from clusterctl.report.text.table import size
from clusterctl.report.view import Block, Item
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
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.apply.carry import Folder
    from clusterctl.apply.plan.file_diff import Present
    from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep

ADD, CHANGE, REMOVE, LEAVE = "+", "~", "-", "."
"""The signs of changes; one with LEAVE changes nothing."""
_TONES = {ADD: Tone.GOOD, CHANGE: Tone.OPEN, REMOVE: Tone.BAD, LEAVE: Tone.FAINT}
_VARIANTS = 3
"""The most different diffs, notes or values of one change that are shown in a block."""
_VALUE_CHARACTERS = 40
_PROCESSOR = re.compile(r"\bcpu\d+\b")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one node as people read it, with the diff of its file and notes below it."""

    sign: str
    requirement: str
    text: str
    diff: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    restarts: str = ""
    """The service that restarts."""
    reboots: bool = False
    was: str = field(default="", compare=False)
    is_refused: bool = False
    """Whether it cannot be done."""
    """The value before, where it is short."""


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """The planned, or made, changes of one node."""

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
    diff: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if isinstance(step, (WriteFile, WriteBlock)):
        sign, more = _file(step, present.get(step.path))
        diff = file_diff.shown(step, present.get(step.path))
    elif isinstance(step, (WriteValue, SetRegister)):
        # The kernel separates the numbers of a value with tabs.
        was = " ".join(step.prior.split()) if len(step.prior) <= _VALUE_CHARACTERS else ""
    elif isinstance(step, InstallPackages):
        sign, notes = ADD, _packages(step, copied.get(step.folder or ""), first=first)
    elif isinstance(step, (LoadModule, EnableUnit, PutTree, MakeVenv)):
        sign = ADD
    return Change(
        sign,
        planned.requirement,
        f"{step.description} ({more})" if more else step.description,
        diff,
        notes,
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
        files = f"{counted(len(folder.sums), 'file')}, {size(sum(folder.sizes))}"
        copies = (f"note: {files}, copied to each node from {folder.path}",) if first else ()
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


def blocks(nodes: Iterable[NodeChanges]) -> Iterator[Block]:
    """Yield a block for each distinct list of changes: the names of its nodes, then its changes.

    Nodes without changes are left out.
    """
    alike: dict[tuple[object, ...], list[NodeChanges]] = {}
    for node in (replace(found, changes=_joined(found.changes)) for found in nodes if found.changes):
        alike.setdefault((node.head, *node.changes), []).append(node)
    yield from map(_block, alike.values())


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


def _block(nodes: Sequence[NodeChanges]) -> Block:
    first = nodes[0]
    title = nodeset.fold_counted([node.node for node in nodes], " nodes")
    items = []
    for index, change in enumerate(first.changes):
        by_node = {node.node: node.changes[index] for node in nodes}
        items.append(
            Item(
                Tone.BAD if change.is_refused else _TONES.get(change.sign, Tone.PLAIN),
                change.text + _was(one.was for one in by_node.values()),
                tuple(_shared({name: one.notes for name, one in by_node.items()})),
                word=change.sign,
                about=change.requirement,
                diff=tuple(_shared({name: one.diff for name, one in by_node.items()})),
            )
        )
    before = f"{title}: {first.head}:" if first.head else f"{title}:"
    return Block("", before=before, items=tuple(items), signs=True, apart=True)


def _was(values: Iterable[str]) -> str:
    """Return the former values of a change on the nodes of a block, in parentheses."""
    different = list(dict.fromkeys(filter(None, values)))
    if len(different) > _VARIANTS:
        return f" (was {different[0]}; the others differ)"
    return f" (was {' or '.join(different)})" if different else ""


def _shared(by_node: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the diffs or notes of a change; nodes whose lines differ only in names and numbers share them."""
    kinds: dict[str, tuple[tuple[str, ...], list[str], bool]] = {}
    for node, lines in by_node.items():
        first, names, differs = kinds.setdefault(shape("\n".join(lines)), (lines, [], False))
        names.append(node)
        kinds[shape("\n".join(lines))] = (first, names, differs or lines != first)
    found: list[str] = []
    for lines, names, differs in list(kinds.values())[:_VARIANTS]:
        if len(kinds) > 1 and lines:
            found.append(f"on {nodeset.fold(names)}:")
        found += lines
        if differs and lines:
            found.append(f"(of {names[0]}; the others differ in names or numbers)")
    more = len(kinds) - _VARIANTS
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


def end(nodes: Sequence[NodeChanges], before: Iterable[str] = ()) -> Block:
    """Return the end of a plan: ``before``, what restarts and reboots, and the number of changes."""
    alert = tuple(Item(Tone.OPEN, line) for line in disturbed(nodes))
    return Block(
        "", lines=tuple(before), items=(*alert, Item(Tone.HEAD, f"Plan: {size_of(nodes)}")), apart=True
    )


def made(nodes: Iterable[NodeChanges], head: str, *, seen: bool) -> Iterator[Block]:
    """Yield what a run has changed, below ``head`` and the number of changes; nothing if it changed nothing.

    Only the number, if the reader has just ``seen`` that all of this was planned.
    """
    busy = [
        NodeChanges(
            node.node, tuple(replace(one, diff=(), notes=()) for one in node.changes if one.sign != LEAVE)
        )
        for node in nodes
    ]
    busy = [node for node in busy if node.changes]
    if busy:
        yield Block("", items=(Item(Tone.HEAD, f"{head}: {size_of(busy)}"),), apart=True)
        yield from () if seen else blocks(busy)


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
