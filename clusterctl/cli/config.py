"""``config show``: clusterctl's own settings, and where each value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from clusterctl.cli import console
from clusterctl.cli.options import JsonOption

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
    from clusterctl.report.text.table import columns, fits

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
    rows = [(one.name, _number(one.value), _from(one), one.help) for one in settings]
    width = console.width()
    table = columns(("setting", "value", "from", "meaning"), rows, left=(0, 1, 2, 3))
    if width is not None and not fits(table, width):
        short = columns(("setting", "value", "from"), [row[:3] for row in rows], left=(0, 1, 2))
        meanings = columns(("setting", "meaning"), [(row[0], row[3]) for row in rows], left=(0, 1))
        table = f"{short}\n\n{meanings}"
    console.data(table, look="settings")
    console.talk(f"configuration file: {path}{'' if is_there(path) else ' (does not exist)'}")


def _from(setting: ConfigSetting) -> str:
    """Return what set the value; a variable that the first column names already is ``environment``."""
    return "environment" if setting.origin == f"${setting.name}" else setting.origin


def _number(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
