"""The distribution of a fleet's values as a strip of dots, with what is outside of its threshold named."""

from __future__ import annotations

from statistics import median

from markupsafe import Markup

from clusterctl.report.figures import Strip
from clusterctl.report.html.svg import tag

_WIDTH, _HEIGHT, _SIDE, _LINE = 640, 74, 24, 40
_NAMED = 4
"""The outliers whose names are drawn; more would cover each other."""


def draw(strip: Strip) -> Markup:
    """Return a drawing of the values, their median, and the threshold."""
    dots, limit = strip.dots, strip.limit
    values = [dot.value for dot in dots]
    drawn = values if limit is None else [*values, limit]
    least, most = min(drawn), max(drawn)
    span = (most - least) or abs(most) or 1.0

    def x(value: float) -> float:
        return _SIDE + (value - least) / span * (_WIDTH - 2 * _SIDE)

    parts = [tag("line", x1=_SIDE, x2=_WIDTH - _SIDE, y1=_LINE, y2=_LINE, class_="axis")]
    middle = median(values)
    parts.append(tag("line", x1=x(middle), x2=x(middle), y1=_LINE - 12, y2=_LINE + 12, class_="axis"))
    if limit is not None:
        parts.append(tag("path", d=f"M{x(limit):.1f},{_LINE - 16}V{_LINE + 16}", class_="reference"))
    for dot in sorted(dots, key=lambda one: one.bad):
        style = "marker s2" if dot.bad else "marker s1"
        title = tag("title", f"{dot.name}: {dot.value:.5g}")
        parts.append(tag("circle", title, cx=x(dot.value), cy=_LINE, r=5 if dot.bad else 3.6, class_=style))
    worst = [dot for dot in dots if dot.bad][:_NAMED]
    for place, dot in enumerate(worst):
        anchor = "start" if x(dot.value) < _WIDTH / 2 else "end"
        y = 14 + 12 * (place % 2)
        parts.append(tag("text", dot.name, x=x(dot.value), y=y, text_anchor=anchor, class_="mark-label"))
    ends = ((least, "start"), (most, "end"))
    for value, anchor in ends if most > least else ends[:1]:
        parts.append(tag("text", f"{value:.4g}", x=x(value), y=_HEIGHT - 6, text_anchor=anchor))
    return tag(
        "svg", *parts, class_="chart", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label=f"{len(dots)} values from {least:.4g} to {most:.4g}, median {middle:.4g}",
    )  # fmt: skip
