"""SVG elements as text; everything except elements is escaped."""

from __future__ import annotations

from markupsafe import Markup, escape

from clusterctl.text.visible import visible


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """Return one element; ``class_`` is class, ``text_anchor`` is text-anchor, and None omits an attribute."""
    said = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), visible(value) if isinstance(value, str) else number(value)
        )
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(
        child if isinstance(child, Markup) else escape(visible(child)) for child in children
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), said, inside)
