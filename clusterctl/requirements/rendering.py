"""Render the files that steps write on nodes, from ``templates/systemd`` and its sibling directories."""

from __future__ import annotations

from typing import Any

from clusterctl import resources


def render(folder: str, name: str, **values: Any) -> str:
    """Render one template; a variable without a value raises jinja2's UndefinedError."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(resources.text("templates", folder, name)).render(**values)
