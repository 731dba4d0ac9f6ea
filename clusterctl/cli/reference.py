"""Generate ``docs/cli.md``: each command with its arguments, options and exit codes.

Run as a module, it prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from clusterctl.cli import exit_codes, main
from clusterctl.cli.description import CommandDescription, Parameter, described
from clusterctl.text.markdown import GENERATED, code, inline, page, paragraph, table

_WORDS: dict[type, str] = {int: "integer", float: "number", str: "text", Path: "path"}


def _spelling(one: Parameter) -> str:
    """Return its name on the command line: ``--limit``, ``-i``, or the name of an argument."""
    return ", ".join(code(spelling) for spelling in one.spellings) if one.is_option else code(one.metavar)


def _value(one: Parameter) -> str:
    """Return the kind of value that it takes, in words."""
    if one.is_flag:
        return "flag"
    parts = [code(one.metavar)] if one.is_option and not one.choices else []
    if one.choices:
        parts.append(", ".join(code(choice) for choice in one.choices))
    else:
        parts.append(", ".join([_WORDS[one.type], *([one.range] if one.range else [])]))
    several = ", repeatable" if one.is_option else ", several"
    return ": ".join(parts) + (several if one.repeatable else "")


def _default(one: Parameter) -> str:
    """Return its default: a value as code, a description as text."""
    if one.required:
        return "required"
    if isinstance(one.info.show_default, str):
        return inline(one.shown_default)
    return code(one.shown_default) if one.shown_default else ""


def _parameter_table(heading: str, given: Sequence[Parameter]) -> Iterator[str]:
    if given:
        columns = (heading, "Value", "Default", "Meaning")
        yield table(
            columns,
            ((_spelling(one), _value(one), _default(one), inline(one.info.help or "")) for one in given),
        )


def _commands(command: CommandDescription) -> Iterator[str]:
    """Yield the blocks of each command below this one, in order."""
    for below in command.commands.values():
        yield f"{'#' * len(below.path.split())} {below.path}"
        if below.function is not None:
            yield f"```\n{below.usage}\n```"
        for text in below.paragraphs:
            yield paragraph(inline(text))
        yield from _parameter_table("Argument", [one for one in below.parameters if not one.is_option])
        yield from _parameter_table("Option", [one for one in below.parameters if one.is_option])
        yield from _commands(below)


def text() -> str:
    """Return the content of ``docs/cli.md``."""
    whole = described(main.application())
    return page(
        (
            "# Command line",
            GENERATED.format(source="the functions in clusterctl/cli/"),
            paragraph(
                "`-h` or `--help` after any command prints its help. The options of the first table may stand "
                "before or after the command. [Settings](settings.md) lists defaults that the environment and "
                "`config.yaml` can change."
            ),
            *_parameter_table("Option", whole.parameters),
            "## Exit codes",
            table(
                ("Code", "Meaning"),
                ((code(str(number)), inline(text)) for number, text in exit_codes.meanings()),
            ),
            *_commands(whole),
        )
    )


if __name__ == "__main__":
    sys.stdout.write(text())
