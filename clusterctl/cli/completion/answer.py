"""Answer a shell that completes a command line.

The shell's script runs ``clusterctl __complete SHELL WORDS..``; the last word is the one at the cursor, and may be
empty. The first line of the answer is the kind: ``words``, ``files`` or ``directories``. Each further line is a word,
a tab, and its description.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import typer

from clusterctl.cli import verbs
from clusterctl.cli.completion import values
from clusterctl.cli.description import CommandDescription, Parameter, described
from clusterctl.cli.help.headings import OF_COMMANDS

Application = Callable[[str | None], typer.Typer]
"""Returns the application of one command, or of all of them."""
_WORDS = "words"
_BREAKS = "=:"
"""bash also splits words at these, and replaces only the part after the last one (COMP_WORDBREAKS)."""


@dataclass(frozen=True)
class Completions:
    """Hold words with their descriptions, or the kind of files that the shell shall complete itself."""

    kind: str = _WORDS
    words: values.Values = field(default_factory=dict)

    def starting(self, text: str, prefix: str = "") -> Completions:
        """Return the words that start with the text, each after the prefix."""
        return Completions(
            self.kind, {prefix + word: told for word, told in self.words.items() if word.startswith(text)}
        )


def text(request: Sequence[str], application: Application) -> str:
    """Return the answer to the words of a request; a word that cannot be completed has one without words."""
    shell, *words = request if len(request) > 1 else ["", ""]
    if shell == "bash":
        words = _split(words[0])
    found = answer(words, application)
    cut = _broken(words[-1]) if shell == "bash" else 0
    # A name with control characters would act on the terminal.
    shown = {word: told for word, told in found.words.items() if word.isprintable()}
    return "\n".join([found.kind, *(f"{word[cut:]}\t{told}" for word, told in shown.items())])


def _split(line: str) -> list[str]:
    """Return the words of a command line of bash up to the cursor, without the program."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        return [*words[1:], ""] if line[-1:].isspace() and not closing else words[1:] or [""]
    return [""]


def _broken(word: str) -> int:
    """Return how much of a word bash keeps, because it splits words there."""
    return max(word.rfind(mark) for mark in _BREAKS) + 1


def answer(words: Sequence[str], application: Application) -> Completions:
    """Return what completes the last word."""
    typed, incomplete = list(words[:-1]), words[-1]
    whole = described(application(verbs.named_in(typed) or ""))
    command, rest = _command(whole, typed)
    if command.path == "clusterctl help":
        named = described(application(None)).below(rest)
        return Completions() if named is None else _commands(named).starting(incomplete)
    if command.application is not None:
        return _of_group(whole, command, rest, incomplete)
    return _of_command(whole, command, rest, incomplete)


def _command(whole: CommandDescription, typed: list[str]) -> tuple[CommandDescription, list[str]]:
    """Return the command that the words name, and the words after it."""
    command, rest, options = whole, list(typed), _options(whole)
    while rest and command.application is not None:
        option = options.get(rest[0])
        if option is not None:
            if not option.is_flag and len(rest) == 1:  # its value is at the cursor
                break
            del rest[: 1 if option.is_flag else 2]
        elif rest[0] in command.commands:
            command = command.commands[rest.pop(0)]
        else:
            break
    return command, rest


def _options(command: CommandDescription) -> dict[str, Parameter]:
    """Return the options of a command by each of their spellings."""
    return {
        spelling: one
        for one in command.parameters
        if one.is_option
        for listed in one.spellings
        for spelling in listed.split("/")
    }


def _of_group(
    whole: CommandDescription, command: CommandDescription, rest: list[str], incomplete: str
) -> Completions:
    """Return commands, or the options of clusterctl itself."""
    if len(rest) == 1 and rest[0] in _options(whole):
        return _value(_options(whole)[rest[0]], incomplete, values.Typed(()))
    if rest:
        return Completions()
    if incomplete.startswith("-"):
        return _option_words(whole, whole if command is whole else None).starting(incomplete)
    if command is whole:
        summaries = {name: told for listed in OF_COMMANDS.values() for name, told in listed.items()}
        return Completions(words=summaries).starting(incomplete)
    return _commands(command).starting(incomplete)


def _commands(command: CommandDescription) -> Completions:
    return Completions(words={name: below.summary for name, below in command.commands.items()})


def _option_words(
    whole: CommandDescription, command: CommandDescription | None, used: Sequence[str] = ()
) -> Completions:
    """Return the options of a command, without used ones, and the global ones."""
    own = [] if command is None or command is whole else list(command.parameters)
    found: dict[str, str] = {}
    for one in (*own, *whole.parameters):
        hidden = one.name in used and not one.repeatable
        if one.is_option and not hidden and not (command is not whole and "--version" in one.spellings):
            found.update(dict.fromkeys(_long(one), one.info.help or ""))
    return Completions(words={**found, "--help": "Print this help and exit."})


def _long(one: Parameter) -> list[str]:
    """Return the long forms of an option: ``--topk`` and ``--no-topk``."""
    spellings = [spelling for listed in one.spellings for spelling in listed.split("/")]
    return [spelling for spelling in spellings if spelling.startswith("--")] or spellings


def _of_command(
    whole: CommandDescription, command: CommandDescription, rest: list[str], incomplete: str
) -> Completions:
    """Return what completes an option, its value, or an argument."""
    if "--" in rest:
        return Completions(values.FILES)
    options = {**_options(whole), **_options(command)}
    arguments = [one for one in command.parameters if not one.is_option]
    given: dict[str, str] = {}
    awaited: Parameter | None = None
    for word in rest:
        name, equals, value = word.partition("=")
        if awaited is not None:
            given[awaited.name], awaited = word, None
        elif name in options:
            option = options[name]
            given[option.name] = value
            awaited = option if not option.is_flag and not equals else None
        elif not word.startswith("-") and arguments:
            given[arguments[0].name] = word
            arguments = arguments if arguments[0].repeatable else arguments[1:]
    typed = values.Typed(tuple(command.path.split()[1:]), given)
    name, equals, value = incomplete.partition("=")
    if awaited is not None:
        return _value(awaited, incomplete, typed)
    if equals and name in options:
        return _value(options[name], value, typed, f"{name}=")
    if incomplete.startswith("-") or (not arguments and not incomplete):
        return _option_words(whole, command, tuple(given)).starting(incomplete)
    return _value(arguments[0], incomplete, typed) if arguments else Completions()


def _value(one: Parameter, incomplete: str, typed: values.Typed, prefix: str = "") -> Completions:
    """Return the values of an option or argument, each after the prefix."""
    if one.choices or "|" in one.metavar:
        choices = one.choices or one.metavar.split("|")
        return Completions(words=dict.fromkeys(choices, "")).starting(incomplete, prefix)
    found = values.BY_METAVAR.get(values.kind_of(one.metavar))
    if found is None:
        return Completions()
    if isinstance(found, str):
        return Completions(found)
    kept = ""
    if values.is_list(one.metavar):
        kept = incomplete[: incomplete.rfind(",") + 1]
        if incomplete[len(kept) :].startswith("!"):
            kept += "!"
    wanted = incomplete[len(kept) :]
    before = set(kept.replace("!", "").split(","))
    words = {word: told for word, told in found(typed).items() if word not in before}
    answered = Completions(words=words).starting(wanted, prefix + kept)
    if not answered.words and values.kind_of(one.metavar) == "RUN" and wanted:
        # The end of an id names a run too, and is shorter to type.
        return Completions(
            words={prefix + word: told for word, told in words.items() if word.endswith(wanted)}
        )
    return answered
