"""Reasons why nodes did not answer, or not completely, in few lines even for a thousand nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.text.folding import NAME, Kinds, named, shape, without_name
from clusterctl.report.view import Item
from clusterctl.text.wording import counted
from clusterctl.transport import sudo

if TYPE_CHECKING:
    from clusterctl.apply.execute import StepOutcome
    from clusterctl.documents.evidence import Fault
    from clusterctl.documents.steps import Step
    from clusterctl.documents.words import NodeError
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import Failure

KINDS_SHOWN = 20
_ALL_NAMES = 10**6
# Messages of transports begin with the node's name and its address in parentheses, some others with the name only.
_WHERE = re.compile(r"\S+ \(([^()]*)\): ")
_PLACE = re.compile(r"\([^()]*\)")


def add_message(kinds: Kinds, key: tuple[str, ...], message: str, name: str) -> None:
    """Add a message; a leading node name is removed, and its address is kept but not compared."""
    message = message.removeprefix(f"{name}: ")
    found = _WHERE.match(message)
    if found is None or not message.startswith(f"{name} ("):
        kinds.add(key, message, name)
        return
    rest = message[found.end() :]
    kinds.add(key, f"{found[1]}: {rest}", name, like=rest)


def failure_lines(failures: Mapping[str, Failure | NodeError]) -> Iterator[str]:
    """Yield a line per failure with nodes, reason and hint; nodes with the same failure share a line."""
    return (line for one in failure_items(failures) for line in one.lines)


def failure_items(failures: Mapping[str, Failure | NodeError]) -> Iterator[Item]:
    """Yield an item per failure with nodes, reason and hint; nodes with the same failure share an item.

    Failures are the same if they differ only in names, addresses and numbers; the item shows those of the first node.
    """
    kinds = Kinds()
    hints = {name: failure.hint for name, failure in failures.items()}
    for name, failure in failures.items():
        add_message(kinds, (failure.kind.value,), failure.message, name)
    shown = list(kinds.found.items())
    more = len(shown) - KINDS_SHOWN
    last_hint = None
    for (kind, _), (message, names, differs) in shown if more <= 1 else shown[:KINDS_SHOWN]:
        hint = folded_hint(names, hints)
        why = (f"hint: {hint}",) if hint and hint != last_hint else ()
        yield Item(Tone.BAD, Kinds.said(message, differs), why, nodes=named(names, _ALL_NAMES), about=kind)
        last_hint = hint
    if more > 1:
        rest = [name for _, (_, names, _) in shown[KINDS_SHOWN:] for name in names]
        said = f"... and {more} more different failures (--json has them all): {named(rest, _ALL_NAMES)}"
        yield Item(Tone.BAD, said)


def folded_hint(names: Sequence[str], hints: Mapping[str, str | None]) -> str | None:
    """Return the hint of the first node; with the set of all nodes instead of its name, if only the names differ."""
    first = hints[names[0]]
    if first is None or len(names) == 1:
        return first
    text = without_name(first, names[0])
    if NAME not in text or any(without_name(hints[name] or "", name) != text for name in names[1:]):
        return first
    return text.replace(NAME, nodeset.fold(names))


def fault_lines(faults: Iterable[Fault], above: str = "") -> Iterator[str]:
    """Yield the failures of a run and then the hints, each once; nodes with the same failure or hint share a line.

    What the reader has seen ``above``, in the sentence on top of the result, is left out.
    """
    every = list(faults)
    yield from (
        f"failed: {kind}: {message}" for kind, message in fault_messages(every) if message not in above
    )
    yield from (f"hint: {hint}" for hint in fault_hints(every) if hint not in above)


def in_a_sentence(faults: Sequence[Fault]) -> str:
    """Return the first failure, its hint and the number of others, for the sentence on top; empty without failures."""
    messages = [message.partition("\n")[0] for _, message in fault_messages(faults)]
    hints = [hint.partition("\n")[0] for hint in fault_hints(faults[:1])]
    more = [counted(len(messages) - 1, "more failure")] if len(messages) > 1 else []
    return "; ".join([*messages[:1], *hints, *more])


def fault_messages(faults: Iterable[Fault]) -> Iterator[tuple[str, str]]:
    """Yield kind and message of each failure; messages that differ by node names only appear once with a node set."""
    alike: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        like = fault.message
        # Failures of ranks are listed separately, because the rank matters.
        if fault.node is not None and fault.rank is None:
            like = shape(_PLACE.sub("", like).replace(fault.node, ""))
        alike.setdefault((fault.kind.value, like), []).append(fault)
    for (kind, _), group in alike.items():
        first = group[0].message
        by_node = {fault.node: fault.message for fault in reversed(group) if fault.node}
        nodes = list(reversed(by_node))
        texts = {without_name(message, node) for node, message in by_node.items()}
        if len(nodes) > 1 and len(texts) == 1:
            yield kind, texts.pop().replace(NAME, nodeset.fold(nodes))
        elif len(nodes) > 1:
            yield kind, f"{first} [same on {named(nodes[1:], _ALL_NAMES)}; names and numbers differ]"
        else:
            yield kind, first


def fault_hints(faults: Iterable[Fault]) -> Iterator[str]:
    """Yield the hints of failures; those that differ by node names only appear once with a node set."""
    alike: dict[str, dict[str, str]] = {}
    for fault in faults:
        if hint := fault.hint:
            node = fault.node or ""
            alike.setdefault(without_name(hint, node) if node else hint, {}).setdefault(node, hint)
    for text, hints in alike.items():
        yield text.replace(NAME, nodeset.fold(hints)) if len(hints) > 1 else next(iter(hints.values()))


def rootless_lines(
    facts: Mapping[str, NodeFacts],
    verdicts: Mapping[str, tuple[Decision, ...]],
    changing: Collection[str] = (),
) -> Iterator[str]:
    """Yield why root is not available on nodes that need it for an unknown verdict or for a change."""
    kinds = Kinds()
    refusals: set[str] = set()
    for name, judged in verdicts.items():
        found = facts.get(name)
        if found is None or found.root.available:
            continue
        refused = sudo.REFUSED in found.root.detail
        if refused or name in changing or any(verdict.status.value == "unknown" for verdict in judged):
            add_message(kinds, (), found.root.detail, name)
            refusals |= {found.root.detail} if refused else set()
    for why, names, differs in kinds.found.values():
        yield f"{named(names, _ALL_NAMES)}: without root: {Kinds.said(why, differs)}".replace("\n", "\n    ")
    if kinds.found:
        missed = "every step needs root" if changing else "some of the unknown verdicts may need root"
        fix = f"allow sudo without a password, or set {sudo.PASSWORD_VARIABLE}"
        if refusals:
            by_variable = any(sudo.PASSWORD_VARIABLE in text for text in refusals)
            fix = f"correct ${sudo.PASSWORD_VARIABLE}" if by_variable else "type the right password"
        yield f"    hint: {missed}; {fix}"


def step_lines(told: Iterable[tuple[str, Step | StepOutcome, str]]) -> Iterator[str]:
    """Yield lines on steps, given as (node, step, text); nodes with the same text share a line."""
    kinds = Kinds()
    for name, step, text in told:
        what = f"{step.requirement}: {step.description}"
        kinds.add((what,), f"{what}: {text}", name, like=text)
    for text, names, differs in kinds.found.values():
        yield f"{named(names, _ALL_NAMES)}: {Kinds.said(text, differs)}"
