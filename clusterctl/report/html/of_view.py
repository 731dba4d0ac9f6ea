"""A view as one self-contained page: all values are escaped, and an undefined name is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jinja2
from markupsafe import Markup

from clusterctl import __version__, resources
from clusterctl.report.html import chart, strip, topology_picture
from clusterctl.report.text.wrapping import next_lines
from clusterctl.report.view import Cell, Head, NextStep, View
from clusterctl.text.visible import visible


def render(view: View) -> str:
    """Return the page as HTML text; LookupError if its template names a value that a view lacks."""
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
    try:
        return environment.get_template("view.html.j2").render(
            style=Markup(resources.text("templates", "report", "style.css")),
            version=__version__,
            title=view.title,
            view=view,
            tiles=view.tiles,
            blocks=[one for one in view.blocks if one.on_page],
            several=len(view.variants) > 1,
        )
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def _harmless(value: object) -> object:
    """Escape visibly characters that reverse text direction or that are not allowed in a page."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def commands(steps: Sequence[NextStep]) -> list[str]:
    """Return the commands to type next, each with its purpose as a shell comment."""
    return [line.removeprefix("Next: ") for line in next_lines(steps)]


def breakable(text: str) -> Markup:
    """Return node names or the name of a variant, which may wrap behind each comma, underscore and equals sign."""
    return Markup("<wbr>").join(Markup.escape(visible(part)) for part in re.split(r"(?<=[,_=])", text))


def classes(cell: Cell, head: Head) -> str:
    """Return the style sheet's classes of a cell in a column."""
    return " ".join(word for word in ("word" if head.words else "", cell.tone.value, cell.shade) if word)
