"""What happened to the hardware during a run, as lines of text (``proof.health``)."""

from __future__ import annotations

from collections.abc import Iterable

from clusterctl.documents.kinds import Effect
from clusterctl.documents.proof import HardwareEvent, HardwareHealth, Unread
from clusterctl.inventory import nodeset
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted

_QUOTA = "cpu_quota"


def lines(entry: HardwareHealth) -> list[str]:
    """Return the lines on what makes the figures doubtful, then on the rest, then on what could not be compared.

    An event of many GPUs or nodes is one line.
    """
    held = [event for event in entry.events if event.name == _QUOTA]
    doubtful = [event for event in entry.events if event.effect is not Effect.NOTE and event not in held]
    found = [f"DOUBTFUL: {line}" for line in _folded(held)]
    if doubtful:
        nodes = nodeset.fold(dict.fromkeys(event.node for event in doubtful))
        found += [f"DOUBTFUL: the hardware reported faults during the run, on {nodes}:"]
    found += [f"  {line}" for line in _folded(doubtful)]
    found += [
        f"note: {line}" for line in _folded([event for event in entry.events if event.effect is Effect.NOTE])
    ]
    return found + _unread(entry.unread)


def _folded(events: Iterable[HardwareEvent]) -> Iterable[str]:
    """Yield one line for the events of each kind: the largest one, and how many others there are."""
    kinds = grouped(((event.name, event.meaning), event) for event in events)
    for (_, meaning), found in kinds.items():
        first = max(found, key=lambda event: event.by or 0)
        others = {(event.node, event.place) for event in found} - {(first.node, first.place)}
        more = ""
        if others:
            nodes = nodeset.fold(sorted({node for node, _ in others}))
            more = f"; less at {counted(len(others), 'other place')} of {nodes}"
        yield f"{first.node} {first.place}: {first.what}{more}" + (f" ({meaning})" if meaning else "")


def _unread(entries: Iterable[Unread]) -> list[str]:
    reasons = grouped((one.reason, one.node) for one in entries)
    return [f"note: {nodeset.fold(nodes)}: {reason}" for reason, nodes in reasons.items()]
