"""``config show``: clusterctl's own settings, and where each value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from clusterctl.cli import console
from clusterctl.cli.options import JsonOption
from clusterctl.report.line import Tone
from clusterctl.report.view import Cell

if TYPE_CHECKING:
    from clusterctl.documents.config import ConfigSetting

app = typer.Typer(help="Show clusterctl's own settings.", no_args_is_help=True)
_OPTIONS = {"fanout": "--fanout", "CLUSTERCTL_INVENTORY": "INVENTORY, -i", "CLUSTERCTL_RUNS": "--runs"}


@app.callback()
def about() -> None:
    """Show clusterctl's own settings."""


@app.command()
def show(as_json: JsonOption = False) -> None:
    """Show each setting, its value, and what set it: a variable, config.yaml or the default.

    The option of a command has precedence over all of these.
    """
    from clusterctl import config
    from clusterctl.documents.config import Config, ConfigSetting
    from clusterctl.inventory.user_paths import is_there
    from clusterctl.report.view import Block, Head, Table, View

    settings = [
        ConfigSetting(
            name=one.name, value=chosen.value, origin=chosen.origin, default=one.default,
            variable=one.variable, option=_OPTIONS.get(one.name), help=one.help,
        )
        for one in config.SETTINGS
        for chosen in (config.resolve(one),)
    ]  # fmt: skip
    settings += [
        ConfigSetting(
            name=one.name, value=value, origin=origin, default=one.default, variable=one.name,
            option=_OPTIONS.get(one.name), help=one.help,
        )
        for one in config.VARIABLES
        for value, origin in (config.of_variable(one),)
    ]  # fmt: skip
    path = config.config_path()
    if as_json:
        console.emit_json(
            Config(file=str(path), file_exists=is_there(path), settings=tuple(settings)).document()
        )
        return
    heads = (
        *(Head(name, words=True) for name in ("setting", "value", "from")),
        Head("meaning", words=True, wide=True),
    )
    rows = tuple(
        (Cell(one.name, Tone.NAME), Cell(_number(one.value)), _from(one), Cell(one.help)) for one in settings
    )
    table = Table(heads, rows, notes=tuple(one.help for one in settings))
    console.show(View("", (Block("", tables=(table,)),)))
    console.talk(f"configuration file: {path}{'' if is_there(path) else ' (does not exist)'}")


def _from(setting: ConfigSetting) -> Cell:
    """Return what set the value; a variable that the first column names already is ``environment``."""
    origin = "environment" if setting.origin == f"${setting.name}" else setting.origin
    return Cell(origin, Tone.FAINT if origin == "default" else Tone.PLAIN)


def _number(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
