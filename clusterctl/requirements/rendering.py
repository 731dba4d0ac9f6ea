"""Render the files that steps write on nodes, from ``templates/systemd`` and its sibling directories."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from clusterctl import resources

if TYPE_CHECKING:
    from jinja2 import Template


# Compiling a template takes a millisecond, and the nodes of a fleet need the same few.
@cache
def template(folder: str, name: str) -> Template:
    """Return one template, compiled."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(resources.text("templates", folder, name))


def render(folder: str, name: str, **values: Any) -> str:
    """Render one template; a variable without a value raises jinja2's UndefinedError."""
    return template(folder, name).render(**values)
