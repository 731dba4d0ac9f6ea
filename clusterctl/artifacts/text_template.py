"""Render the shipped templates: undefined names are errors, and nothing is escaped automatically."""

from __future__ import annotations

from typing import Any

import jinja2

from clusterctl import resources


def fill(folder: str, name: str, **values: Any) -> str:
    """Return a filled template; raise jinja2.UndefinedError for a missing value."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.from_string(resources.text("templates", folder, name)).render(**values)
