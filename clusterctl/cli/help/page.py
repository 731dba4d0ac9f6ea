"""Lay out the help of a command: usage, options under their headings, defaults, exit codes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence

from clusterctl.cli import exit_codes
from clusterctl.cli.description import CommandDescription, Parameter
from clusterctl.cli.help.headings import OF_COMMANDS, heading_of
from clusterctl.report import line as line_of
from clusterctl.report.line import Tone, TonedLine, labelled
from clusterctl.report.text.wrapping import below

_Rows = Mapping[str, Sequence[tuple[str, str]]]
"""Headings with their rows; a row is a term and its text."""

_LEAST, _MOST = 60, 200
_WIDEST_TERM = 30
"""A longer term stands on a line of its own."""
_PLAIN_RANGES = ("", "0 or more", "1 or more")
"""Ranges that a reader assumes."""
_WHOLE_NOTE = 30
"""A longer note on defaults may wrap."""
_UNBROKEN = "\xa0"
_AT_THE_END = {"LightCC and Horovod": 1, "Output": 2}
"""The last headings: what few people need, and the options that all commands share."""
_HELP = ("-h, --help", "Print this help and exit.")


def width() -> int:
    """Return the columns to use: those of the terminal or ``COLUMNS``, 80 without both, and never more than 200."""
    return max(_LEAST, min(_MOST, shutil.get_terminal_size((80, 24)).columns))


def render(command: CommandDescription, whole: CommandDescription, columns: int) -> str:
    """Return the help of a command as plain text."""
    return "\n".join(line.text for line in lines(command, whole, columns))


def lines(command: CommandDescription, whole: CommandDescription, columns: int) -> list[TonedLine]:
    """Return the help of a command; ``whole`` describes ``clusterctl`` itself and its global options."""
    blocks = [
        [labelled(usage(command, columns), Tone.HEAD)],
        *(_filled(text, columns) for text in (command.summary, *command.remarks)),
    ]
    if command.application is not None:
        blocks += _sections(_commands(command, whole), columns)
    own = [_row(one) for one in whole.parameters if command is whole or "--version" not in one.spellings]
    heading = "Options" if command is whole else "Global options, before or after the command"
    blocks += _sections({**_options(command), heading: [*own, _HELP]}, columns)
    codes = _exit_codes() if command is whole else command.exit_codes
    if codes:
        blocks += _sections({"Exit codes": codes}, columns)
    blocks += [_filled(text, columns) for text in _last(command, whole)]
    return [line for block in blocks for line in (TonedLine(""), *block)][1:]


def usage(command: CommandDescription, columns: int) -> str:
    """Return the synopsis of a command."""
    return "\n".join(_wrapped(f"Usage: {command.usage}", columns, "", 2))


def _exit_codes() -> list[tuple[str, str]]:
    """Return each exit code with its first meaning, the general one."""
    found: dict[str, str] = {}
    for code, text in exit_codes.meanings():
        found.setdefault(str(code), text)
    return list(found.items())


def _last(command: CommandDescription, whole: CommandDescription) -> Iterable[str]:
    if command is whole:
        yield "'clusterctl help COMMAND' or 'clusterctl COMMAND --help' prints the help of one command."
        yield "'clusterctl requirements show NAME' prints what is checked, and what bootstrap and undo do."
        yield "Guides: docs/README.md in the source repository"
    elif command.commands:
        yield f"'{command.path} COMMAND --help' prints the help of one command."


def _options(command: CommandDescription) -> _Rows:
    """Return headings with their rows: arguments, then options as the command has them, vendors and output last."""
    found: dict[str, list[tuple[str, str]]] = {}
    if command.application is None:
        for one in command.parameters:
            heading = heading_of(one.spellings) if one.is_option else "Arguments"
            found.setdefault(heading, []).append(_row(one))
    order = sorted(found, key=lambda heading: (heading != "Arguments", _AT_THE_END.get(heading, 0)))
    return {heading: found[heading] for heading in order}


def _commands(command: CommandDescription, whole: CommandDescription) -> _Rows:
    """Return headings with the commands below them."""
    if command is whole:
        return {heading: list(summaries.items()) for heading, summaries in OF_COMMANDS.items()}
    return {"Commands": [(name, below.summary) for name, below in command.commands.items()]}


def _row(one: Parameter) -> tuple[str, str]:
    if one.is_option:
        short_first = sorted(one.spellings, key=len)
        term = " ".join([", ".join(short_first), *([one.metavar] if one.metavar else [])])
    else:
        term = one.metavar if one.required else f"[{one.metavar}]"
    notes = [f"default: {one.shown_default}"] if one.shown_default else []
    notes += [one.range] if one.range not in _PLAIN_RANGES else []
    notes += ["repeatable"] if one.repeatable and one.is_option else []
    noted = f"[{'; '.join(notes)}]" if notes else ""
    if len(noted) <= _WHOLE_NOTE:
        noted = noted.replace(" ", _UNBROKEN)
    return term, " ".join(part for part in (one.info.help, noted) if part)


def _sections(rows_by_heading: _Rows, columns: int) -> list[list[TonedLine]]:
    """Return each heading with its rows; the texts of all of them begin at the same column."""
    terms = [term for rows in rows_by_heading.values() for term, _ in rows if len(term) <= _WIDEST_TERM]
    indent = max((len(term) for term in terms), default=0) + 4
    return [
        [line_of.whole(f"{heading}:", Tone.HEAD), *_rows(rows, indent, columns)]
        for heading, rows in rows_by_heading.items()
    ]


def _rows(rows: Iterable[tuple[str, str]], indent: int, columns: int) -> Iterable[TonedLine]:
    for term, text in rows:
        beside = len(term) + 4 <= indent
        above = [] if beside else [f"  {term}"]
        first = f"  {term}".ljust(indent) if beside else " " * indent
        first, *others = above + (_wrapped(text, columns, first, indent) or [first.rstrip()])
        yield TonedLine(first, ((2, 2 + len(term), Tone.NAME),))
        yield from map(TonedLine, others)


def _filled(text: str, columns: int) -> list[TonedLine]:
    return [TonedLine(line) for line in _wrapped(text, columns, "", 0)]


def _wrapped(text: str, columns: int, first: str, indent: int) -> list[str]:
    return [line.replace(_UNBROKEN, " ") for line in below(first, text, indent, columns)]
