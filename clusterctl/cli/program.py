"""Parse a command line whose words after ``--`` are a program that follows an optional inventory."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from clusterctl.errors import UsageError

_PROGRAM = "command"


class ProgramAfterDashes(TyperCommand):
    """A command whose parameter ``command`` takes the words after ``--``, and no others.

    Typer drops ``--``, so that the first word of the program would be the inventory.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if parameter.name == _PROGRAM:
                parameter.required = False  # parse_args requires it

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        early, program = list(ctx.params[_PROGRAM] or ()), args[at + 1 :]
        usage = f"write: {ctx.command_path} [INVENTORY] -- COMMAND"
        if early:
            raise UsageError(f"{early[0]!r}: the command must follow '--'", hint=usage)
        if not program:
            raise UsageError("no command was given", hint=usage)
        ctx.params[_PROGRAM] = program
        return rest
