"""A command that takes dataclasses has their fields as options, in order."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer

from clusterctl.cli.option_groups import with_groups

SizeOption = Annotated[int, typer.Option("--size", min=1)]


@dataclass(frozen=True)
class Paint:
    color: Annotated[str, typer.Option("--color")]
    size: SizeOption = 3


def application(seen: list[object]) -> typer.Typer:
    def draw(*, first: Annotated[bool, typer.Option("--first")] = False, paint: Paint, last: int = 0) -> None:
        """Draw."""
        seen.append((first, paint, last))

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(with_groups(draw))
    return app


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--color", "red"], (False, Paint("red"), 0)),
        (["--first", "--size", "7", "--color", "red", "--last", "2"], (True, Paint("red", 7), 2)),
    ],
)
def test_the_command_gets_the_dataclass(arguments: list[str], expected: object) -> None:
    seen: list[object] = []
    application(seen)(arguments, standalone_mode=False)
    assert seen == [expected]


@pytest.mark.parametrize("arguments", [[], ["--color", "red", "--size", "0"]])
def test_fields_are_checked_as_options(arguments: list[str]) -> None:
    seen: list[object] = []
    with pytest.raises(SystemExit) as ended:
        application(seen)(arguments)
    assert ended.value.code == 2
    assert seen == []


def test_the_options_keep_their_order_and_the_command_its_name() -> None:
    def draw(*, first: Annotated[bool, typer.Option("--first")] = False, paint: Paint, last: int = 0) -> None:
        """Draw."""

    found = with_groups(draw)
    assert list(signature(found).parameters) == ["first", "color", "size", "last"]
    assert (found.__name__, found.__doc__) == ("draw", "Draw.")
