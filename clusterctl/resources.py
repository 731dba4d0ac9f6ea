"""Find and read what clusterctl ships: templates and inventories, installed or in the checkout, and YAML tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

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


def table(path: Path) -> Any:
    """Return the contents of a YAML table that stands beside the code."""
    import yaml

    # The loader of libyaml, where PyYAML has it, takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader(path.read_text(encoding="utf-8")).get_single_data()
