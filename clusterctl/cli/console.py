"""Write to the terminal: data to stdout, messages to stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from clusterctl import log
from clusterctl.cli.terminal import color
from clusterctl.cli.terminal.live_area import AREA
from clusterctl.cli.terminal.streams import abandon, encodable, takes_all
from clusterctl.errors import ConfigError, UsageError
from clusterctl.report.line import TonedLine, labelled
from clusterctl.text import json_text
from clusterctl.text.visible import visible

if TYPE_CHECKING:
    from clusterctl.report.view import View

_NOTICE_S = 0.1
"""Seconds until a question notices that it was withdrawn."""


class ReaderGoneError(Exception):
    """Report that the reader of stdout closed it. Not an OSError, which Typer would turn into exit code 1."""


def open_closed_streams() -> None:
    """Open closed standard streams (``>&-``, some daemons) on os.devnull; else the next file would get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def flush() -> None:
    """Flush stdout, so that ConfigError or ReaderGoneError is raised here and not when the interpreter exits."""
    with _written():
        sys.stdout.flush()


@contextlib.contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        abandon(sys.stdout)
        raise ConfigError(
            f"standard output cannot be written: {error.strerror}",
            hint="check whether the disk is full; the output is incomplete",
        ) from error


@contextlib.contextmanager
def written_by_others() -> Iterator[None]:
    """Let output of Typer itself (help) fail with the same errors as output of this module."""
    out, err = sys.stdout, sys.stderr
    try:
        yield
    except (OSError, SystemExit) as ended:
        # For a closed pipe, Typer exits with 1 and replaces the standard streams to suppress the message.
        sys.stdout, sys.stderr = out, err
        error = ended.__context__ if isinstance(ended, SystemExit) else ended
        if not isinstance(error, OSError) or not _is_typers(error):
            raise error or ended from None
        with _written():
            raise error from None


def _is_typers(error: BaseException) -> bool:
    """Return whether an exception was raised in code of Typer or click."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("typer", "click")


def emit_json(document: Mapping[str, Any]) -> None:
    """Write the command's one JSON document to stdout."""
    text = (
        json_text.indented(document).decode()
        if takes_all(sys.stdout)
        else json_text.in_ascii(document, indent=1)
    )
    with _written():
        sys.stdout.write(text + "\n")


def quiet() -> bool:
    """Return whether ``--quiet`` is set."""
    return logging.getLogger(log.ROOT).getEffectiveLevel() > logging.WARNING


def verbose() -> bool:
    """Return whether ``--verbose`` is set."""
    return logging.getLogger(log.ROOT).getEffectiveLevel() <= logging.INFO


def data(text: str | Sequence[TonedLine]) -> None:
    """Write the requested data to stdout, on a colour terminal in the colours of its lines."""
    shown = _shown(sys.stdout, [TonedLine(text)] if isinstance(text, str) else text)
    with _written(), AREA.above():
        sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        if sys.stdout.isatty():
            sys.stdout.flush()


def talk(text: str) -> None:
    """Write a message to stderr, unless ``--quiet`` is set; if stderr cannot be written, the work continues."""
    if not quiet():
        error(text)


def error(text: str | Sequence[TonedLine]) -> None:
    """Write a message to stderr that ``--quiet`` does not suppress: an error, its hint, an interrupt.

    A terminal wraps a text between words. stdout is flushed first, because both streams are often the same file.
    """
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with AREA.above():
        try:
            lines = list(map(labelled, _fitting(text).split("\n"))) if isinstance(text, str) else text
            sys.stderr.write(_shown(sys.stderr, lines) + "\n")
            sys.stderr.flush()
        except OSError:
            abandon(sys.stderr)


def _fitting(text: str) -> str:
    if not sys.stderr.isatty():
        return text
    from clusterctl.report.text.wrapping import wrapped_message

    return wrapped_message(text, shutil.get_terminal_size((120, 24)).columns)


def _shown(stream: TextIO, lines: Sequence[TonedLine]) -> str:
    def clean(text: str) -> str:
        return encodable(stream, visible(text))

    if color.wanted(stream):
        return "\n".join(color.painted(line, clean) for line in lines)
    return clean("\n".join(line.text for line in lines))


def result(document: Mapping[str, Any], view: Callable[[], View], *, as_json: bool) -> None:
    """Write what a command found to stdout: its document, or the view of it for people."""
    if as_json:
        emit_json(document)
    else:
        show(view())


def show(view: View) -> None:
    """Write a view to stdout, as wide as the terminal."""
    from clusterctl.report.text import of_view

    data(of_view.lines(view, width()))


def width() -> int | None:
    """Return the columns of stdout's terminal; None for a file or pipe, whose lines are not folded."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else None


def is_one_screen() -> bool:
    """Tell whether the results and the messages are on one terminal."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask a yes/no question on the terminal; raise UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(
            "confirmation is needed, but no terminal is attached",
            hint="add --yes to continue without the question",
        )
    with AREA.paused():
        sys.stderr.write(visible(f"{question} [y/N] "))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:  # Ctrl-D: the question's line has no end yet
            sys.stderr.write("\n")
        return line.strip().lower() in ("y", "yes")


def is_attended() -> bool:
    """Tell whether a person can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_terminal(problem: str, *, hint: str) -> None:
    """Raise UsageError if no person can answer a question."""
    if not is_attended():
        raise UsageError(problem, hint=hint)


def ask(question: str) -> str:
    """Ask for a line on the terminal; raise KeyboardInterrupt at the end of the input (Ctrl-D)."""
    with AREA.paused():
        sys.stderr.write(visible(f"{question}: "))
        sys.stderr.flush()
        line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip()


def ask_unseen(question: str, *, withdrawn: Callable[[], bool] = lambda: False) -> str:
    """Ask for a secret without echo, from any thread; return an empty text at Ctrl-D or once ``withdrawn`` is true.

    Ctrl-C interrupts only the main thread, which withdraws the question. The terminal's echo is restored when the
    question or the program ends.
    """
    import atexit
    import functools
    import getpass
    import select
    import termios

    with contextlib.ExitStack() as stack:
        stack.enter_context(AREA.paused())
        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
            stack.callback(os.close, terminal)
            before = termios.tcgetattr(terminal)
        except (OSError, termios.error):
            return getpass.getpass(visible(question))
        unseen = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        # Flush the input: a partly typed secret must not reach the shell.
        restore = functools.partial(termios.tcsetattr, terminal, termios.TCSAFLUSH, before)
        atexit.register(restore)
        stack.callback(atexit.unregister, restore)
        stack.callback(restore)
        termios.tcsetattr(terminal, termios.TCSAFLUSH, unseen)
        os.write(terminal, visible(question).encode(errors="replace"))
        line = b""
        while not (withdrawn() or line.endswith(b"\n")):
            if select.select([terminal], [], [], _NOTICE_S)[0]:
                piece = os.read(terminal, 4096)
                if not piece:
                    break
                line += piece
        os.write(terminal, b"\n")
        return "" if withdrawn() else os.fsdecode(line).rstrip("\n")
