"""Texts that steps write on nodes, filled from ``templates/systemd`` and its neighbours."""

from __future__ import annotations

from typing import Any

from clusterctl import resources


def render(folder: str, name: str, **values: Any) -> str:
    """Fill one template; a name that it uses and that is not given is an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(resources.text("templates", folder, name)).render(**values)
