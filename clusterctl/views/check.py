"""The view of ``check``: nodes with the same answer share a row, so that a thousand nodes stay readable."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterctl.documents.check import Check, CheckedNode, Verdict
from clusterctl.documents.kinds import VerdictOwner, VerdictStatus
from clusterctl.inventory import nodeset
from clusterctl.report.check_document import document_of
from clusterctl.report.line import Tone
from clusterctl.report.text.failures import failure_items
from clusterctl.report.text.folding import Kinds, named
from clusterctl.report.view import (
    Block,
    Case,
    CaseEnd,
    Cell,
    Head,
    Item,
    Metric,
    NextStep,
    Suite,
    Table,
    Tile,
    View,
)
from clusterctl.results import words
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted, some
from clusterctl.views import verdict_matrix
from clusterctl.views.next_step import ready_line
from clusterctl.views.tones import OF_WORDS

if TYPE_CHECKING:
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap

ROWS_PER_REQUIREMENT = 6
DRIFT_LINES = 20
WARNING_LINES = 20
_ALL_NAMES = 10**6
_NAMES_CHARACTERS = 38
"""With the columns before it, a longer list of nodes is wider than a terminal of 80 columns."""
_MOST_NAMED = 4
"""The most different faults in the sentence."""
_HARDWARE = ("gpu-health", "gpu-driver", "fabric-manager", "rdma-link", "disk")
"""The requirements that are about hardware, where no step meets them: shown first of those left to a person."""


@dataclass(frozen=True, slots=True)
class _Section:
    """Verdicts that are shown together: their status and owner, their sign, and a finer word than the six."""

    status: VerdictStatus
    owner: VerdictOwner | None
    sign: Cell
    finer: str = ""
    title: str = ""

    @property
    def word(self) -> str:
        """Return the word for its verdicts, and the finer one beside it."""
        return words.with_finer(words.OF_VERDICTS[self.status], self.finer)


_SECTIONS = (
    _Section(
        VerdictStatus.UNMET, VerdictOwner.YOU, Cell("\u2715", Tone.BAD), "needs a person", "Left to a person"
    ),
    _Section(
        VerdictStatus.UNMET, VerdictOwner.BOOTSTRAP, Cell("+", Tone.FIXABLE), "bootstrap fixes it", "Fixed by bootstrap"
    ),
    _Section(VerdictStatus.UNKNOWN, None, Cell("?", Tone.OPEN), title="Unsure"),
    _Section(VerdictStatus.MET, None, Cell("\u2713", Tone.GOOD)),
    _Section(VerdictStatus.NOT_APPLICABLE, None, Cell("\u2013", Tone.FAINT), "not applicable"),
)  # fmt: skip
"""All verdicts, in the order in which they are shown; those without a title need no attention."""
_OPEN = _SECTIONS[:3]
_OF = {(one.status, one.owner): one for one in _SECTIONS}
_ENDS = {
    VerdictStatus.UNMET: CaseEnd.FAILURE,
    VerdictStatus.UNKNOWN: CaseEnd.ERROR,
    VerdictStatus.NOT_APPLICABLE: CaseEnd.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class _Answer:
    """Nodes with the same verdict on a requirement for the same reason; ``first`` is the verdict of the first one."""

    section: _Section
    requirement: str
    reason: str
    nodes: tuple[str, ...]
    first: Verdict


def view(
    found: Check,
    *,
    checked_at_s: float = 0.0,
    following: Sequence[NextStep] = (),
    notes: Sequence[str] = (),
    every: bool = False,
    for_page: bool = False,
) -> View:
    """Return what people, CI servers and monitoring systems see of a check.

    ``checked_at_s`` is when the last node answered, in seconds since the epoch; ``following`` are the commands to type
    next, ``notes`` say why root was not available. ``every`` also lists what needs no attention. The blocks that
    only a page has room for are made ``for_page`` only.
    """
    total = len(found.nodes)
    word, finer = words.of_check(found)
    ready = ready_line(found.ready_to_launch)
    onward = Block("Next", steps=tuple(following))
    blocks = (
        Block("", lines=() if ready is None else (ready,), on_terminal=False),
        replace(onward, on_terminal=False),
        *(_sections(found) if for_page else ()),
        *blocks_of(found, every=every),
        Block("", lines=tuple(notes), on_page=False, apart=True),
        *((_matrix(found),) if for_page else ()),
        _drift(found),
        Block("", lines=tuple(words.strict_lines(found.strict)), apart=True),
        *((_others(found),) if for_page else ()),
        Block("", lines=() if ready is None else (ready,), on_page=False, apart=True),
        replace(onward, on_page=False, apart=ready is None),
    )
    return View(
        title=f"Fleet check \u00b7 {counted(total, 'node')}",
        began=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(checked_at_s)),
        word=words.with_finer(word, finer),
        tone=OF_WORDS[word],
        sentence=f"{_checked(found)} {sentence(found)}",
        tiles=tuple(_tiles(found)) if for_page else (),
        blocks=tuple(one for one in blocks if not one.is_empty),
        suites=lambda: _suites(found),
        metrics=lambda: _metrics(found, checked_at_s=checked_at_s),
    )


def blocks_of(found: Check, *, every: bool = False, reasons: bool = True) -> Iterator[Block]:
    """Yield what is unmet or unknown, the warnings, and the unreachable nodes, of which reasons can be left out.

    Nodes whose reasons are the same except for names and numbers share a row. Requirements that are met or not
    applicable are only named, unless ``every`` is set.
    """
    answered = _answered(found)
    if answered:
        answers = list(_answers(answered))
        table = _table(answers, len(answered), _SECTIONS if every else _OPEN)
        names = nodeset.fold_counted([one.name for one in answered], " nodes")
        yield Block("", lines=(names,), tables=table, on_page=False, apart=True)
        yield Block("", lines=() if every else tuple(_folded(answered)), on_page=False)
        yield Block("Warnings", items=tuple(_warnings(answered)), limit=WARNING_LINES)
    errors = {node.name: node.error for node in found.nodes if node.error is not None}
    if errors:
        yield Block(
            "Unreachable nodes", before=f"unreachable: {named(list(errors), _ALL_NAMES)}",
            items=tuple(failure_items(errors)) if reasons else (), tone=Tone.BAD, apart=True,
        )  # fmt: skip


def not_planned(verdicts: HostMap[tuple[Decision, ...]]) -> Block:
    """Return what is unmet or unknown and has no step in the plan."""
    answered = verdicts.values_by_node
    left = {name: tuple(one for one in outcome if not one.steps) for name, outcome in answered.items()}
    nodes = document_of(type(verdicts)(left)).nodes
    table = _table(list(_answers(nodes)), len(nodes), _OPEN)
    return Block("", before="Not in this plan:" if table else "", tables=table)


def sentence(found: Check) -> str:
    """Return what the nodes need: who must act, on which nodes."""
    answered = _answered(found)
    parts = []
    for section in _OPEN:
        by_node = {
            node.name: names
            for node in answered
            if (names := tuple(v.requirement for v in node.verdicts if _section(v) is section))
        }
        requirements = list(dict.fromkeys(name for names in by_node.values() for name in names))
        what = requirements[0] if len(requirements) == 1 else counted(len(requirements), "requirement")
        where = "" if len(answered) == 1 else f" on {_these(list(by_node), len(answered))}"
        if not by_node:
            continue
        if section.owner is VerdictOwner.YOU:
            needs = f"{counted(len(by_node), 'node')} need{'s' if len(by_node) == 1 else ''} a person"
            alike = grouped((some(names, 2), name) for name, names in by_node.items())
            said = [f"{_short(nodes)} ({names})" for names, nodes in alike.items()]
            parts.append(f"{needs}: {some(said, _MOST_NAMED)}")
        elif section.owner is VerdictOwner.BOOTSTRAP:
            parts.append(f"bootstrap can fix {what}{where}")
        else:
            parts.append(f"{what} {'is' if len(requirements) == 1 else 'are'} unknown{where}")
    if answered and not parts:
        meet = "meets" if len(answered) == 1 else "meet"
        every = "all " if 1 < len(answered) == len(found.nodes) else ""
        parts.append(
            f"{every}{counted(len(answered), 'node')} {meet} every requirement{_that_applies(answered)}"
        )
    return "; ".join(parts) or "nothing could be checked"


def _that_applies(answered: Sequence[CheckedNode]) -> str:
    """Return how many requirements apply, where fewer than half do: in a container, nearly nothing is judged."""
    verdicts = [one for node in answered for one in node.verdicts]
    apply = {one.requirement for one in verdicts if one.status is not VerdictStatus.NOT_APPLICABLE}
    every = {one.requirement for one in verdicts}
    return f" that applies ({len(apply)} of {len(every)})" if 2 * len(apply) < len(every) else ""


def _checked(found: Check) -> str:
    """Return how many nodes were checked, and which are down."""
    total, lost = len(found.nodes), [node.name for node in found.nodes if not node.reachable]
    if not lost:
        return f"Checked {counted(total, 'node')}:"
    are = "is" if len(lost) == 1 else "are"
    return f"Checked {total - len(lost)} of {counted(total, 'node')}; {_short(lost)} {are} down;"


def _short(nodes: Sequence[str]) -> str:
    return named(nodes).partition(" ")[0]


def _these(nodes: Sequence[str], total: int) -> str:
    if len(nodes) == total:
        return f"all {total} nodes"
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"


def _answered(found: Check) -> list[CheckedNode]:
    return [node for node in found.nodes if node.reachable]


def _section(verdict: Verdict) -> _Section:
    return _OF[verdict.status, verdict.owner]


def _answers(nodes: Iterable[CheckedNode]) -> Iterator[_Answer]:
    """Yield the answers section by section; what a person must meet begins with hardware."""
    kinds: dict[str, Kinds] = {}
    verdicts: dict[tuple[str, str], Verdict] = {}
    for node in nodes:
        for one in node.verdicts:
            found = kinds.setdefault(one.requirement, Kinds())
            found.add((one.status.value, (one.owner or one.status).value), _reason(one), node.name)
            verdicts[one.requirement, node.name] = one
    answers = [
        _Answer(_section(first), name, Kinds.said(reason, differs), tuple(names), first)
        for name, found in kinds.items()
        for reason, names, differs in found.found.values()
        for first in (verdicts[name, names[0]],)
    ]
    for section in _SECTIONS:
        is_hard = section.owner is VerdictOwner.YOU
        mine = [one for one in answers if one.section is section]
        yield from sorted(mine, key=lambda one: _hardness(one.requirement) if is_hard else 0)


def _hardness(requirement: str) -> int:
    return _HARDWARE.index(requirement) if requirement in _HARDWARE else len(_HARDWARE)


def _reason(verdict: Verdict) -> str:
    return f"{verdict.reason}; no step: {verdict.no_step}" if verdict.no_step else verdict.reason


def _table(answers: Sequence[_Answer], total: int, sections: Sequence[_Section]) -> tuple[Table, ...]:
    """Return the table of a terminal, without the column of nodes if all nodes share each answer."""
    rows: list[tuple[Cell, ...]] = []
    alike = grouped(((one.section, one.requirement), one) for one in answers if one.section in sections)
    for (section, requirement), found in alike.items():
        shown = found if len(found) <= ROWS_PER_REQUIREMENT + 1 else found[:ROWS_PER_REQUIREMENT]
        texts = [(one.nodes, one.reason) for one in shown]
        if len(shown) < len(found):
            rest = tuple(name for one in found[len(shown) :] for name in one.nodes)
            texts.append((rest, f"... {len(found) - len(shown)} more different answers"))
        for number, (nodes, reason) in enumerate(texts):
            is_rest = number >= len(shown)
            who = "all" if len(nodes) == total and not is_rest else named(nodes, _NAMES_CHARACTERS)
            # A requirement is named once; its other answers follow below.
            name = Cell(requirement, terminal=" " if number else "")
            status = words.OF_VERDICTS[section.status].value
            fix = section.owner.value if section.owner else ""
            rows.append((Cell(status, section.sign.tone), Cell(fix), name, Cell(who), Cell(reason)))
    if not rows:
        return ()
    has_fix, has_nodes = any(row[1].text for row in rows), any(row[3].text != "all" for row in rows)
    heads = tuple(
        Head(text, words=True, on_terminal=kept)
        for text, kept in (
            ("status", True), ("fix", has_fix), ("requirement", True), ("nodes", has_nodes), ("reason", True)
        )
    )  # fmt: skip
    return (Table(heads, tuple(rows)),)


def _folded(nodes: Sequence[CheckedNode]) -> Iterator[str]:
    """Yield a line for the requirements that are met, and one for those that are not applicable."""
    total = len(nodes)
    counts = {section.status: Counter[str]() for section in _SECTIONS}
    for verdict in (one for node in nodes for one in node.verdicts):
        counts[verdict.status][verdict.requirement] += 1
    for section in _SECTIONS[len(_OPEN) :]:
        names = [
            name if count == total else f"{name} ({count} of {total} nodes)"
            for name, count in counts[section.status].items()
        ]
        if names:
            yield f"{section.word}: {', '.join(names)}"


def _warnings(nodes: Sequence[CheckedNode]) -> Iterator[Item]:
    kinds = Kinds()
    for node in nodes:
        for verdict in node.verdicts:
            for warning in verdict.warnings or ():
                kinds.add((verdict.requirement,), warning, node.name)
    for key, (text, names, differs) in kinds.found.items():
        who = "" if len(names) == len(nodes) else named(names)
        yield Item(Tone.OPEN, Kinds.said(text, differs), word="warning", nodes=who, about=key[0])


def _sections(found: Check) -> Iterator[Block]:
    """Yield what is open, with the values that decided about the first node of each answer."""
    answered = _answered(found)
    by_section = grouped((one.section, one) for one in _answers(answered))
    for section in _OPEN:
        items = tuple(_item(one, len(answered)) for one in by_section.get(section, ()))
        yield Block(section.title, items=items, on_terminal=False)


def _item(one: _Answer, total: int) -> Item:
    values = tuple((Cell(key), Cell(_value(value))) for key, value in one.first.evidence.items())
    title = "Evidence" if total == 1 else f"Evidence of {one.nodes[0]}"
    return Item(
        one.section.sign.tone,
        one.reason,
        word=f"{one.section.sign.text} {one.section.word}",
        nodes="" if total == 1 else nodeset.fold_counted(one.nodes, " nodes"),
        about=one.requirement,
        details=Table((Head("field"), Head("value")), values, style="pairs", title=title) if values else None,
    )


def _value(value: object) -> str:
    """Return a value of the evidence in words; lists and maps of plain values in one line."""
    if isinstance(value, Mapping) and value:
        return "; ".join(f"{key}: {_value(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)) and value:
        return ", ".join(_value(one) for one in value)
    if value is None or isinstance(value, (Mapping, list, tuple)):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _others(found: Check) -> Block:
    """Return the answers that need no attention, with their reasons."""
    rows = tuple(
        tuple(map(Cell, (one.requirement, one.section.word, nodeset.fold_counted(one.nodes, " nodes"), one.reason)))
        for one in _answers(_answered(found))
        if one.section not in _OPEN
    )  # fmt: skip
    heads = tuple(map(Head, ("requirement", "verdict", "nodes", "reason")))
    title = "Met and not applicable"
    table = (Table(heads, rows, style="plain", title=title),) if rows else ()
    return Block(
        title, closed=table, summary=f"{counted(len(rows), 'answer')} with reasons",
        after=("clusterctl requirements show NAME explains a requirement.",), on_terminal=False,
    )  # fmt: skip


def _drift(found: Check) -> Block:
    heads = tuple(Head(text, words=True) for text in ("nodes", "fact", "difference"))
    rows = tuple(
        (
            Cell(nodeset.fold(one.nodes)),
            Cell(one.fact),
            Cell(f"{one.value}, others {one.others}{' (no majority)' if one.tie else ''}"),
        )
        for one in found.drift
    )
    return Block(
        "Drift",
        before="drift (differences from most nodes of the same kind):" if rows else "",
        tables=(Table(heads, rows, style="plain", title="Drift"),) if rows else (),
        apart=True,
        limit=DRIFT_LINES,
    )


def _matrix(found: Check) -> Block:
    answered = _answered(found)
    names = list(dict.fromkeys(v.requirement for node in answered for v in node.verdicts))
    cells_of = {}
    for node in answered:
        by_name = {one.requirement: one for one in node.verdicts}
        cells_of[node.name] = tuple(_cell(name, by_name.get(name)) for name in names)
    legend = [replace(one.sign, text=f"{one.sign.text} {one.word}") for one in _SECTIONS]
    return verdict_matrix.block("Nodes by requirements", names, cells_of, legend)


def _cell(name: str, verdict: Verdict | None) -> Cell:
    if verdict is None:
        return Cell("", title=f"{name}: not checked")
    return replace(_section(verdict).sign, title=f"{name}: {_reason(verdict)}")


def _tiles(found: Check) -> Iterator[Tile]:
    counts, answered = found.summary.nodes, _answered(found)
    lost = [node.name for node in found.nodes if not node.reachable]
    for label, count, section in zip(
        ("Need a person", "Bootstrap fixes", "Unsure"),
        (counts.you, counts.bootstrap, counts.unknown),
        _OPEN,
        strict=True,
    ):
        nodes = [node.name for node in answered if any(_section(v) is section for v in node.verdicts)]
        of = sorted({v.requirement for node in answered for v in node.verdicts if _section(v) is section})
        yield _tile(label, count, f"{named(nodes)}: {some(of, 3)}" if nodes else "")
    yield _tile("Down", counts.unreachable, named(lost) if lost else "all nodes answered")
    yield _tile("As required", counts.whole, "every requirement met or not applicable")
    drifting = list(dict.fromkeys(name for one in found.drift for name in one.nodes))
    note = f"on {named(drifting)}" if drifting else ""
    yield Tile("Drift", str(len(found.drift)), "fact" if len(found.drift) == 1 else "facts", note)


def _tile(label: str, count: int, note: str) -> Tile:
    return Tile(label, str(count), "node" if count == 1 else "nodes", note)


def _suites(found: Check) -> Iterator[Suite]:
    """Yield a suite per node with a case per requirement: unknown and unreachable are errors.

    Drift is one case of the suite ``fleet``: it fails with ``--strict``; otherwise it only lists the differences.
    """
    for node in found.nodes:
        error = node.error
        failed = () if error is None else (Case("reachable", CaseEnd.ERROR, error.kind.value, error.message),)
        yield Suite(node.name, (*failed, *map(_case, node.verdicts)))
    if len(found.nodes) > 1 or found.drift:
        lines = "\n".join(
            f"{', '.join(one.nodes)}: {one.fact} {one.value}, others {one.others}" for one in found.drift
        )
        case = Case("drift", CaseEnd.FAILURE, "drift", lines) if found.strict else Case("drift", told=lines)
        yield Suite("fleet", (case,))


def _case(verdict: Verdict) -> Case:
    end = _ENDS.get(verdict.status, CaseEnd.PASSED)
    told = [verdict.reason] if end is CaseEnd.PASSED else []
    told += [f"warning: {text}" for text in verdict.warnings or ()]
    return Case(verdict.requirement, end, verdict.status.value, verdict.reason, "\n".join(told))


def _metrics(found: Check, *, checked_at_s: float) -> Iterator[Metric]:
    """Yield the metrics; ``checked_at_s`` is in seconds since the epoch.

    ``clusterctl_requirement`` has one 0/1 sample per node, requirement and status.
    """
    judged = [(node.name, verdict) for node in found.nodes for verdict in node.verdicts]
    drifting = Counter(name for one in found.drift for name in one.nodes)
    reached = dict.fromkeys([*(node.name for node in found.nodes if node.reachable), *drifting])
    yield Metric(
        "clusterctl_check_timestamp_seconds",
        "When the check ended, in seconds since the epoch.",
        (({}, round(checked_at_s, 3)),),
    )
    yield Metric(
        "clusterctl_node_reachable",
        "Whether the node answered.",
        tuple(({"node": node.name}, int(node.reachable)) for node in found.nodes),
    )
    yield Metric(
        "clusterctl_requirement",
        "Whether a requirement has this status on a node.",
        tuple(
            (
                {"node": node, "requirement": verdict.requirement, "status": status.value},
                int(verdict.status is status),
            )
            for node, verdict in judged
            for status in VerdictStatus
        ),
    )
    yield Metric(
        "clusterctl_requirement_warnings",
        "Number of warnings of a requirement on a node.",
        tuple(
            ({"node": node, "requirement": verdict.requirement}, len(verdict.warnings or ()))
            for node, verdict in judged
        ),
    )
    yield Metric(
        "clusterctl_node_drifting_facts",
        "Number of facts in which a node differs from most nodes of its kind.",
        tuple(({"node": name}, drifting[name]) for name in reached),
    )
