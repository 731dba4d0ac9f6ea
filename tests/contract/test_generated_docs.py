"""The generated pages are those of the present code, and leave nothing out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from clusterctl.cli import main
from clusterctl.cli import reference as cli
from clusterctl.inventory import reference as inventory
from clusterctl.inventory import schema
from clusterctl.text.markdown import code, inline, table

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("name", "text"), [("cli.md", cli.text), ("inventory.md", inventory.text)])
def test_a_generated_page_is_current(name: str, text: Callable[[], str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == text(), "run: make docs"


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield path and command of all that Typer itself parses."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{path} {name}")


def test_every_command_and_option_that_is_parsed_is_listed() -> None:
    sections = dict(re.findall(r"^#+ (.+?)\n(.*?)(?=^#|\Z)", cli.text(), re.MULTILINE | re.DOTALL))
    found = list(commands(typer.main.get_command(main.application()), "clusterctl"))
    assert len(found) > 30
    for path, command in found:
        section = sections["Command line" if path == "clusterctl" else path]
        for parameter in command.params:
            if parameter.name != "help" and not parameter.hidden:
                named = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
                assert all(str(name or parameter.name.upper()) in section for name in named), (path, named)


def test_every_key_has_a_meaning_and_is_listed() -> None:
    document = schema.schema()
    page = inventory.text()
    for name, model in {"the file": document, **document["$defs"]}.items():
        for key, field in model.get("properties", {}).items():
            assert f"| `{key}` |" in page, (name, key)
            assert field.get("description") or "$ref" in field, f"{name}.{key} has no text under it"
    assert re.findall(r"^.*\|  \|$", page, re.MULTILINE) == []


def test_markup_in_help_texts_is_shown_as_written() -> None:
    assert inline("gpu[01-04], *.log, ``a_[b]`` of _x_ and a_b") == (
        r"gpu\[01-04\], \*.log, `a_[b]` of \_x\_ and a_b"
    )
    assert code("N|P%") == "<code>N&#124;P%</code>"
    assert table(("a", "b"), [("1|2", "3")]) == "| a | b |\n| --- | --- |\n| 1\\|2 | 3 |"
