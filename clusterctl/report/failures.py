"""What keeps nodes from answering, or from answering in full, as lines that stay few at a thousand nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clusterctl.report.check_table import Kinds, named, shape

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.requirements.base import Verdict
    from clusterctl.transport.base import Failure

KINDS_SHOWN = 20
_ALL_NAMES = 10**6
# Messages of transports begin with the node's name and, in brackets, where it is; some of others with the name.
_WHERE = re.compile(r"\S+ \(([^()]*)\): ")
_PLACE = re.compile(r"\([^()]*\)")


def _add(kinds: Kinds, key: tuple[str, ...], message: str, name: str) -> None:
    """Add a message; where it begins with its node's name, only the address is left of that, and is not compared."""
    message = message.removeprefix(f"{name}: ")
    found = _WHERE.match(message)
    if found is None or not message.startswith(f"{name} ("):
        kinds.add(key, message, name)
        return
    rest = message[found.end() :]
    kinds.add(key, f"{found[1]}: {rest}", name, like=rest)


def failure_lines(failures: Mapping[str, Failure]) -> Iterator[str]:
    """Yield every node that failed with its reason and what to do; nodes that failed alike share a line.

    Alike is the same but for names, addresses and figures: the first node's stand there. What a node wrote may have
    lines that look like another node's, so that only a text's first line stands at the margin.
    """
    kinds = Kinds()
    hints: dict[str, str | None] = {}
    for name, failure in failures.items():
        _add(kinds, (failure.kind.value,), failure.message, name)
        hints.setdefault(name, failure.hint)
    shown = list(kinds.found.items())
    more = len(shown) - KINDS_SHOWN
    last_hint = None
    for (kind, _), (message, names, differs) in shown if more <= 1 else shown[:KINDS_SHOWN]:
        yield f"{named(names, _ALL_NAMES)}: {kind}: {Kinds.said(message, differs)}".replace("\n", "\n    ")
        hint = hints[names[0]]
        if hint and hint != last_hint:
            yield f"    hint: {hint}".replace("\n", "\n    ")
        last_hint = hint
    if more > 1:
        rest = [name for _, (_, names, _) in shown[KINDS_SHOWN:] for name in names]
        yield f"... and {more} more kinds of failures (--json has them all): {named(rest, _ALL_NAMES)}"


def fault_lines(faults: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what went wrong in a run and then what to do, each once; nodes that failed alike share a line.

    Each fault is one of a ``clusterctl.bench/1`` document's ``proof``.
    """
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for fault in (every := list(faults)):
        message, node = fault["message"], fault.get("node")
        like = message
        # Those of ranks stay apart: which ranks they were says something.
        if isinstance(node, str) and fault.get("rank") is None:
            like = shape(_PLACE.sub("", message).replace(node, ""))
        alike.setdefault((fault["kind"], like), []).append(fault)
    for first, *others in alike.values():
        nodes = list(
            dict.fromkeys(fault["node"] for fault in others if fault.get("node") != first.get("node"))
        )
        more = f" [{named(nodes, _ALL_NAMES)} alike, but for names and figures]" if nodes else ""
        yield f"failed: {first['kind']}: {first['message']}{more}"
    for hint in dict.fromkeys(fault["hint"] for fault in every if fault.get("hint")):
        yield f"hint: {hint}"


def rootless_lines(
    facts: Mapping[str, NodeFacts],
    verdicts: Mapping[str, tuple[Verdict, ...]],
    changing: Collection[str] = (),
) -> Iterator[str]:
    """Yield why root is out of reach on nodes where it is missed: something is unknown, or is to be changed."""
    kinds = Kinds()
    for name, judged in verdicts.items():
        found = facts.get(name)
        if found is None or found.root.available:
            continue
        if name in changing or any(verdict.status.value == "unknown" for verdict in judged):
            _add(kinds, (), found.root.detail, name)
    for why, names, differs in kinds.found.values():
        yield f"{named(names, _ALL_NAMES)}: without root: {Kinds.said(why, differs)}".replace("\n", "\n    ")
    if kinds.found:
        missed = "every step needs root" if changing else "some of what is unknown may need root"
        yield f"    hint: {missed}; let sudo in without a password, or set CLUSTERCTL_SUDO_PASSWORD"


def step_lines(told: Iterable[tuple[str, Mapping[str, Any], str]]) -> Iterator[str]:
    """Yield what is told of steps, each given as (node, step of a document, text); nodes alike share a line."""
    kinds = Kinds()
    for name, step, text in told:
        what = f"{step['requirement']}: {step['description']}"
        kinds.add((what,), f"{what}: {text}", name, like=text)
    for text, names, differs in kinds.found.values():
        yield f"{named(names, _ALL_NAMES)}: {Kinds.said(text, differs)}"
