"""A command that takes dataclasses has their fields as options, in order."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer

from clusterctl.cli.option_groups import Mode, NotWith, given, with_groups
from clusterctl.errors import UsageError

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


@dataclass(frozen=True)
class Sizes:
    small: Annotated[str | None, typer.Option("-b", "--small"), NotWith("--quick")] = None
    large: Annotated[str | None, typer.Option("--large")] = None
    checked: Annotated[bool, typer.Option("--checked", help="Check."), NotWith("--quick", "--dry")] = False


@dataclass(frozen=True)
class Modes:
    quick: Annotated[bool, typer.Option("--quick")] = False
    dry: Annotated[bool, typer.Option("--dry"), NotWith("--quick")] = False


QUICK = Mode("--quick", "has fixed sizes", "--large")


def test_given_names_the_options_that_differ_from_their_defaults():
    assert given(Sizes(), Modes()) == []
    assert given(Sizes(small="8", checked=True), Modes(quick=True)) == ["--small", "--checked", "--quick"]


@pytest.mark.parametrize(
    ("groups", "flags"),
    [
        ((Sizes(small="8", large="9"), Modes(quick=True)), "--small"),
        ((Sizes(small="8", checked=True), Modes(quick=True)), "--small, --checked"),
        ((Modes(quick=True, dry=True),), "--dry"),
    ],
)
def test_a_mode_names_each_option_that_it_excludes(groups, flags):
    with pytest.raises(UsageError) as refused:
        QUICK.refuse_excluded(*groups)
    assert refused.value.message == f"--quick has fixed sizes, so {flags} cannot be combined with it"
    assert refused.value.hint == "leave one of them out; --quick allows --large"


@pytest.mark.parametrize(
    "groups", [(Sizes(small="8", checked=True), Modes()), (Sizes(large="9"), Modes(quick=True))]
)
def test_a_mode_refuses_nothing_else(groups):
    QUICK.refuse_excluded(*groups)
