"""A view as one self-contained page."""

from __future__ import annotations

from clusterctl.report.html import page
from clusterctl.report.view import View


def render(view: View) -> str:
    """Return the page as HTML text."""
    blocks = [one for one in view.blocks if one.on_page]
    return page.render(
        "view.html.j2",
        title=view.title,
        view=view,
        tiles=view.tiles,
        blocks=blocks,
        several=len(view.variants) > 1,
    )
