"""What to type after a check: the command that fixes what bootstrap can fix, and where to read about the rest."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.requirements.base import Decision


def next_lines(
    verdicts: Iterable[tuple[Decision, ...]], bootstrap: Sequence[str] | None, width: int | None = None
) -> Iterator[str]:
    """Yield the next commands, with what each is for; nothing if no requirement is unmet or unknown.

    ``bootstrap`` is the command that covers the same nodes and requirements as the check; None if no node can be
    contacted, as in a replay. bootstrap counts as able to fix a requirement if it has a step on any node.
    """
    order: dict[str, None] = {}
    open_ends, with_steps = set(), set()
    for outcome in verdicts:
        for verdict in outcome:
            order[verdict.requirement] = None
            if verdict.status.value in ("unmet", "unknown"):
                open_ends.add(verdict.requirement)
            if verdict.steps:
                with_steps.add(verdict.requirement)
    fixable = [name for name in order if name in with_steps and bootstrap is not None]
    others = [name for name in order if name in open_ends and name not in fixable]
    if bootstrap is not None and fixable:
        yield from _line(shlex.join(bootstrap), f"shows a plan for {', '.join(fixable)}, and asks", width)
    if others:
        why = "bootstrap has no step for " + ("it" if len(others) == 1 else "these")
        if bootstrap is None:
            why = "what fixes " + ("it" if len(others) == 1 else "these")
        yield from _line(shlex.join(("clusterctl", "requirements", "show", *others)), why, width)


def _line(command: str, why: str, width: int | None) -> Iterator[str]:
    """Yield a command and its purpose as a shell comment, so that lines can be pasted; commands are never wrapped."""
    line = f"Next: {command}  # {why}"
    if width is None or len(line) <= width:
        yield line
        return
    yield f"Next: {command}"
    indent = " " * len("Next: ") + "# "
    yield from textwrap.wrap(
        why, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
