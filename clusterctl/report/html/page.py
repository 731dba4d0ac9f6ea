"""The template engine of the reports: all values are escaped, and an undefined name is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from clusterctl import __version__, resources
from clusterctl.report.html import chart, strip, topology_picture
from clusterctl.report.text.wrapping import next_lines
from clusterctl.report.view import Cell, Head, NextStep
from clusterctl.text.visible import visible


def _harmless(value: object) -> object:
    """Escape visibly characters that reverse text direction or that are not allowed in a page."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, **values: Any) -> str:
    """Return one page of ``templates/report`` with its values; LookupError if a value is missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.folder("templates") / "report"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "draw": chart.draw,
        "swatch": chart.swatch,
        "strip": strip.draw,
        "commands": commands,
        "topology": topology_picture.draw,
        "chain": topology_picture.chain,
        "classes": classes,
        "breakable": breakable,
    }
    environment.globals |= {"whisker": chart.whisker}
    style = Markup(resources.text("templates", "report", "style.css"))
    try:
        return environment.get_template(template).render(style=style, version=__version__, **values)
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def commands(steps: Sequence[NextStep]) -> list[str]:
    """Return the commands to type next, each with its purpose as a shell comment."""
    return [line.removeprefix("Next: ") for line in next_lines(steps)]


def breakable(text: str) -> Markup:
    """Return node names or the name of a variant, which may wrap behind each comma, underscore and equals sign."""
    return Markup("<wbr>").join(Markup.escape(visible(part)) for part in re.split(r"(?<=[,_=])", text))


def classes(cell: Cell, head: Head) -> str:
    """Return the style sheet's classes of a cell in a column."""
    return " ".join(word for word in ("word" if head.words else "", cell.tone.value, cell.shade) if word)
