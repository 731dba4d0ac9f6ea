"""The terminal: data to stdout, talk to stderr, no colour unless a person is looking."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from clusterctl import json_text
from clusterctl.errors import ConfigError, UsageError
from clusterctl.visible import visible


class ReaderGoneError(Exception):
    """Whoever read our output has gone. No OSError, of which Typer would make exit code 1."""


def open_closed_streams() -> None:
    """Let a standard stream that is closed (``>&-``, some daemons) lead nowhere; the next file would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def flush() -> None:
    """Write what stdout still holds; ConfigError or ReaderGoneError here, rather than at the interpreter's end."""
    with _written():
        sys.stdout.flush()


def abandon(*streams: TextIO) -> None:
    """Let those of the streams that take nothing more lead nowhere, so that the interpreter ends in peace."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


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
            hint="is the disk full? the output is cut off",
        ) from error


@contextlib.contextmanager
def written_by_others() -> Iterator[None]:
    """Let what Typer itself writes to stdout, which is help, fail as what is written here does."""
    out, err = sys.stdout, sys.stderr
    try:
        yield
    except (OSError, SystemExit) as ended:
        # Of a pipe that nobody reads Typer makes exit code 1, behind streams of its own that keep it quiet.
        sys.stdout, sys.stderr = out, err
        error = ended.__context__ if isinstance(ended, SystemExit) else ended
        if not isinstance(error, OSError) or not _is_typers(error):
            raise error or ended from None
        with _written():
            raise error from None


def _is_typers(error: BaseException) -> bool:
    """Whether it arose in Typer's own code, or in that of click."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("typer", "click")


def emit_json(document: Mapping[str, Any]) -> None:
    """Write the verb's one JSON document to stdout."""
    text = (
        json_text.indented(document).decode()
        if _takes_all(sys.stdout)
        else json_text.in_ascii(document, indent=1)
    )
    with _written():
        sys.stdout.write(text + "\n")


def data(text: str) -> None:
    """Write what was asked for to stdout."""
    with _written():
        _write(sys.stdout, text if text.endswith("\n") else text + "\n")


def talk(text: str) -> None:
    """Say something about the work to stderr; the work goes on where nobody can be told.

    What stdout was given before comes before: both are often one file.
    """
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    try:
        _write(sys.stderr, text + "\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def _takes_all(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


def _write(stream: TextIO, text: str) -> None:
    shown = visible(text)
    if not _takes_all(stream):  # an old locale: what it cannot say is escaped, and no reason to end
        shown = shown.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
    stream.write(shown)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return rows as aligned plain text; ``right`` names the columns that align right."""
    cells = [list(headers), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def width() -> int | None:
    """Return the columns of the terminal that stdout is; None for a file or a pipe, whose lines are not folded."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else None


def confirm(question: str) -> bool:
    """Ask a yes/no question on the terminal; raise UsageError when nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError("confirmation is needed, but no terminal is attached", hint="add --yes to go ahead")
    sys.stderr.write(visible(f"{question} [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def ask_unseen(question: str) -> str:
    """Ask for what must not be seen, from any thread; the terminal shows what is typed again when the program ends.

    Ctrl-C reaches the main thread alone: whoever waits here for an answer then ends with the program, and with the
    echo still off.
    """
    import atexit
    import getpass
    import termios

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, termios.error):
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
            stack.callback(os.close, terminal)
            before = termios.tcgetattr(terminal)
            # What was typed of the secret by then must not be left to the shell.
            atexit.register(termios.tcsetattr, terminal, termios.TCSAFLUSH, before)
            stack.callback(atexit.unregister, termios.tcsetattr)
        return getpass.getpass(visible(question))
