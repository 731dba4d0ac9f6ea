"""Show the progress of one phase: live on a terminal, and one line when it has finished."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from clusterctl.cli import console
from clusterctl.cli.terminal import color, interrupt
from clusterctl.cli.terminal.elapsed import spoken
from clusterctl.cli.terminal.live_area import AREA, LineSource
from clusterctl.text.visible import visible

_MOST_RUNNING = 20
"""Lines of an interrupt's message about what runs on nodes."""


class Progress:
    """Count what is done in one phase, and show what is awaited; the methods may be called from any thread.

    On a terminal, stderr shows ``Gathering facts: 3/4 nodes, 12 s, waiting for gpu03``, and a line for each distinct
    text of ``now``. The end of the phase leaves ``done`` and the elapsed time, on a terminal or not; nothing if an
    exception ended it. ``--quiet`` suppresses both. ``after_s``: live lines begin so many seconds after the phase.
    """

    def __init__(
        self, what: str, total: int | None = None, unit: str = "", *, done: str = "", after_s: float = 0
    ) -> None:
        self.done = done
        self._after_s = after_s
        self._what, self._total, self._unit = what, total, unit
        self._lock = threading.Lock()
        self._count = 0
        self._said = ""
        self._awaited: dict[str, tuple[str, float]] = {}
        """What runs on each awaited item, and since when."""
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        show_live(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        AREA.remove(self)
        if kind is None and self.done:
            console.talk(f"{self.done} in {spoken(time.monotonic() - self._began)}")
        elif kind is not None and issubclass(kind, KeyboardInterrupt):
            self._tell_interrupt()

    def start(self, item: str) -> None:
        """Note that the item is awaited from now on."""
        self.now(item, "")

    def now(self, item: str, text: str) -> None:
        """Note what runs on the item from now on."""
        with self._lock:
            self._awaited[item] = (_one_line(text), time.monotonic())

    def advance(self, item: str | None = None, by: int = 1) -> None:
        """Count ``by`` as done; the item is no longer awaited."""
        with self._lock:
            self._count += by
            if item is not None:
                self._awaited.pop(item, None)

    def say(self, text: str) -> None:
        """Show this text behind the counter, instead of the text before."""
        with self._lock:
            self._said = _one_line(text)

    def line(self, text: str) -> None:
        """Write a line on stderr that stays, above the live lines."""
        console.talk(text)

    def _tell_interrupt(self) -> None:
        """Report what was done, what runs where, and what is awaited."""
        if interrupt.was_at_question():
            interrupt.tell("Interrupted")
            return
        now = time.monotonic()
        what = f"Interrupted while {self._what[:1].lower()}{self._what[1:]}"
        with self._lock:
            count, awaited = self._count, dict(self._awaited)
        if self._total is None:
            state = f" after {spoken(now - self._began)}"
        else:
            state = f": {count} of {self._total} {self._unit} done"
        waiting = [item for item, (text, _) in awaited.items() if not text]
        still = f", waiting for {_folded(waiting)}" if waiting else ""
        running = _running(awaited, now, 10_000, _MOST_RUNNING)
        # A hint that leaves out every node would leave none.
        late = () if len(awaited) == self._total else tuple(awaited)
        interrupt.tell("\n".join([f"{what}{state}{still}", *running]), late)

    @property
    def awaited(self) -> list[str]:
        """Return the items that have started and are not done, in the order in which they started."""
        with self._lock:
            return list(self._awaited)

    def lines(self, width: int, height: int) -> list[str]:
        """Return the live lines."""
        now = time.monotonic()
        if now - self._began < self._after_s:
            return []
        with self._lock:
            count, said, awaited = self._count, self._said, dict(self._awaited)
        parts = [spoken(now - self._began, tenths=False)]
        if self._total is not None or count:
            of = "" if self._total is None else f"/{self._total}"
            parts.insert(0, f"{count}{of} {self._unit}".rstrip())
        if said:
            parts.append(said)
        waiting = [item for item, (text, _) in awaited.items() if not text]
        if waiting:
            parts.append(f"waiting for {_folded(waiting)}")
        first = _cut(f"{self._what}: {', '.join(parts)}", width)
        return [first, *_running(awaited, now, width, height - 1)]


def show_live(source: LineSource) -> None:
    """Show the lines of a source on stderr, if that is a terminal and ``--quiet`` is not set."""
    if not console.quiet() and color.takes_control(sys.stderr):
        AREA.add(source)


def share(done: int, total: int, unit: str) -> str:
    """Return ``4 nodes``, ``1 node``, or ``3 of 4 nodes``."""
    of = "" if done == total else f"{done} of "
    return f"{of}{total} {unit}" + ("" if total == 1 else "s")


def _running(awaited: dict[str, tuple[str, float]], now: float, width: int, height: int) -> list[str]:
    """Return a line for each distinct text, with the items to which it applies, the longest-running first."""
    groups: dict[str, tuple[float, list[str]]] = {}
    for item, (text, since) in sorted(awaited.items(), key=lambda pair: pair[1][1]):
        if text:
            groups.setdefault(text, (since, []))[1].append(item)
    rows = [(_folded(items), now - since, text) for text, (since, items) in groups.items()]
    if len(rows) > height:
        shown = list(groups.values())[: max(0, height - 1)]
        rest = len([item for item, (text, _) in awaited.items() if text]) - sum(len(i) for _, i in shown)
        more = [f"  ... and {rest} more"] if height > 0 else []
        rows = rows[: max(0, height - 1)]
    else:
        more = []
    names = min(max((len(name) for name, _, _ in rows), default=0), max(8, width // 3))
    lines = [
        f"  {_cut(name, names):{names}}  {spoken(elapsed, tenths=False):>6}  {text}"
        for name, elapsed, text in rows
    ]
    return [_cut(line, width) for line in [*lines, *more]]


def _folded(items: list[str]) -> str:
    from clusterctl.inventory import nodeset

    return visible(nodeset.fold(items))


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _cut(text: str, width: int) -> str:
    """Return the text in at most ``width`` columns of a terminal."""
    if text.isascii():
        return text if len(text) <= width else text[: max(0, width - 3)].rstrip() + "..."[:width]
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 3)) + "..."[:width]
