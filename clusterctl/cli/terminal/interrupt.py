"""Report after Ctrl-C what was and was not done, and what to type next."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from clusterctl.cli import console


@dataclass(slots=True)
class _Interrupt:
    """The command line, and what has been reported about its interrupt."""

    arguments: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    at_question: bool = False


_interrupt = _Interrupt()


def begin(arguments: Sequence[str]) -> None:
    """Note the command line, without the name of the program, and that nothing has interrupted it."""
    _interrupt.arguments = tuple(arguments)
    _interrupt.lines.clear()
    _interrupt.awaited.clear()
    _interrupt.at_question = False


def tell(line: str, awaited: Sequence[str] = ()) -> None:
    """Report a line; ``awaited`` are the nodes whose answer the interrupted phase still awaited."""
    _interrupt.lines.append(line)
    _interrupt.awaited.extend(awaited)
    console.error(line)


def at_question() -> None:
    """Note that the interrupt came while a person was asked, so that no node is late with its answer."""
    _interrupt.at_question = True


def was_at_question() -> bool:
    """Return whether ``at_question`` was called."""
    return _interrupt.at_question


def told() -> tuple[str, ...]:
    """Return what has been reported."""
    return tuple(_interrupt.lines)


def arguments() -> tuple[str, ...]:
    """Return the command line, without the name of the program."""
    return _interrupt.arguments


def command_line(*, without: str = "") -> str:
    """Return what the user typed, to be typed again, without one of its options."""
    return shlex.join(("clusterctl", *(word for word in _interrupt.arguments if word != without)))


_AT_QUESTION = "Interrupted: nothing was changed."


def asked(question: str) -> bool:
    """Ask a yes/no question before the first change; if it is interrupted, report that nothing was changed."""
    try:
        return console.confirm(question)
    except KeyboardInterrupt:
        console.error("")  # the question's line has no end yet
        tell(_AT_QUESTION)
        raise


@contextlib.contextmanager
def explained(state: str, again: str) -> Iterator[None]:
    """Report, if the block is interrupted, what state that leaves; ``again`` introduces the same command line."""
    try:
        yield
    except KeyboardInterrupt:
        tell(state)
        tell(f"{again}: {command_line()}")
        raise


@contextlib.contextmanager
def changes_nothing(*, can_limit: bool = True) -> Iterator[None]:
    """Report, if the block is interrupted, that nodes are unchanged, and how to leave the awaited ones out.

    ``can_limit``: the command line takes ``--limit``.
    """
    try:
        yield
    except KeyboardInterrupt:
        if _AT_QUESTION in _interrupt.lines:
            raise
        tell("No node was changed.")
        if _interrupt.awaited and can_limit:
            tell(f"To leave out the nodes that did not answer: {without(_interrupt.awaited)}")
        raise


def without(nodes: Sequence[str]) -> str:
    """Return the command line, limited to the other nodes."""
    from clusterctl.inventory import nodeset

    words = list(_interrupt.arguments)
    # What follows "--" are the words of a program.
    end = words.index("--") if "--" in words else len(words)
    words[end:end] = ["--limit", nodeset.fold(f"!{name}" for name in nodes)]
    return shlex.join(("clusterctl", *words))
