"""Find the templates and inventories that clusterctl ships: in an installed package or in the checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from clusterctl.errors import ConfigError

_PACKAGE = Path(__file__).parent


@cache
def folder(name: str) -> Path:
    """Return the directory ``templates`` or ``inventories``; raise ConfigError if the installation lacks it."""
    for candidate in (_PACKAGE / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise ConfigError(
        f"the directory {name!r}, which is part of clusterctl, is missing from this installation",
        hint="install clusterctl again: pip install --force-reinstall clusterctl",
    )


def text(*parts: str) -> str:
    """Return the text of one shipped file, named by its directory and path parts."""
    return folder(parts[0]).joinpath(*parts[1:]).read_text(encoding="utf-8")
