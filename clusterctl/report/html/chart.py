"""Line charts: measured figures as lines with markers, expected ones as dashed lines.

Each chart is drawn twice, for a wide and for a narrow page, because the text of a scaled drawing would become too
small; the style sheet shows one of them. Series differ in colour and in marker, for readers who cannot tell colours
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from clusterctl.report.figures import Chart, ChartSeries, Reference
from clusterctl.report.html.svg import number, tag
from clusterctl.report.scale import Scale

SERIES_STYLES = 6
"""The number of colours in the style sheet; further series repeat the colours with other markers."""
_CHARACTER = 8.2
"""The largest width of a character in the charts, in pixels: digits of a wide font (DejaVu Sans) at 12.5 px."""


@dataclass(frozen=True, slots=True)
class _Layout:
    kind: str
    width: int
    height: int
    right: int
    top: int
    bottom: int
    x_ticks: int
    y_ticks: int


_LAYOUTS = (
    _Layout("wide", 920, 380, 24, 34, 52, 12, 6),
    _Layout("narrow", 380, 300, 16, 34, 50, 5, 5),
)


def draw(chart: Chart) -> Markup:
    """Return the chart's two drawings."""
    return Markup("").join(_Drawing(chart, layout).svg() for layout in _LAYOUTS)


def swatch(index: int | None) -> Markup:
    """Return the legend symbol of a series; None: of a reference."""
    if index is None:
        line = tag("line", x1=1, x2=27, y1=7, y2=7, class_="reference")
        return tag("svg", line, class_="swatch", viewBox="0 0 28 14", aria_hidden="true")
    style = _style(index)
    line = tag("line", x1=1, x2=27, y1=7, y2=7, class_=f"line {style}")
    return tag("svg", line, _marker(index, 14, 7), class_="swatch", viewBox="0 0 28 14", aria_hidden="true")


def whisker() -> Markup:
    """Return the legend symbol of the bars at the marks."""
    bar = tag("path", d="M14,1V13M10,1h8M10,13h8", class_="spread plain")
    return tag("svg", bar, class_="swatch", viewBox="0 0 28 14", aria_hidden="true")


def _style(index: int) -> str:
    return f"s{index % SERIES_STYLES + 1}"


def _marker(index: int, x: float, y: float, *children: Markup) -> Markup:
    """Return a circle, square, triangle or diamond around a point."""
    style = f"marker {_style(index)}"
    shape = (index + index // SERIES_STYLES) % 4
    if shape == 0:
        return tag("circle", *children, cx=x, cy=y, r=3.6, class_=style)
    if shape == 1:
        return tag("rect", *children, x=x - 3.3, y=y - 3.3, width=6.6, height=6.6, class_=style)
    corners = (
        ((0, -4.6), (4.4, 3.4), (-4.4, 3.4)) if shape == 2 else ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0))
    )
    points = " ".join(f"{number(x + dx)},{number(y + dy)}" for dx, dy in corners)
    return tag("polygon", *children, points=points, class_=style)


class _Drawing:
    """One chart in one layout."""

    def __init__(self, chart: Chart, layout: _Layout) -> None:
        self._chart = chart
        self._layout = layout
        self._ticks = chart.y.ticks(layout.y_ticks)
        self._left = 14 + _CHARACTER * max((len(tick.label) for tick in self._ticks), default=0)
        # Labels are to the right of and below their marks, where a rising line does not cross them.
        labels = max(len(mark.label) for series in chart.series for mark in series.marks)
        self._right = layout.width - max(layout.right, labels * _CHARACTER + 8)
        self._floor = layout.height - layout.bottom
        self._x = Scale(chart.x.low, chart.x.high, self._left, self._right, chart.x.log)
        self._y = Scale(chart.y.low, chart.y.high, self._floor, layout.top, chart.y.log)

    def svg(self) -> Markup:
        chart, layout = self._chart, self._layout
        name = f"{chart.name}-{layout.kind}"
        parts = [
            tag("title", chart.title, id=f"{name}-title"),
            tag("desc", chart.description, id=f"{name}-desc"),
            *self._grid(),
            *(self._reference(reference) for reference in chart.references),
            *(part for index, series in enumerate(chart.series) for part in self._series(index, series)),
            *self._labels(),
        ]
        return tag(
            "svg", *parts, class_=f"chart {layout.kind}", viewBox=f"0 0 {layout.width} {layout.height}", role="img",
            aria_labelledby=f"{name}-title {name}-desc",
        )  # fmt: skip

    def _grid(self) -> list[Markup]:
        layout, chart = self._layout, self._chart
        parts = []
        for tick in self._ticks:
            y = self._y(tick.value)
            parts.append(tag("line", x1=self._left, x2=self._right, y1=y, y2=y, class_="grid"))
            parts.append(tag("text", tick.label, x=self._left - 8, y=y + 4, text_anchor="end"))
        taken = -1.0
        for tick in chart.x.ticks(layout.x_ticks):
            x, half = self._x(tick.value), len(tick.label) * _CHARACTER / 2
            parts.append(tag("line", x1=x, x2=x, y1=self._floor, y2=self._floor + 5, class_="axis"))
            middle = min(max(x, half), layout.width - half)
            # A label that would touch its neighbour is omitted; its tick is drawn.
            if middle - half >= taken:
                parts.append(tag("text", tick.label, x=middle, y=self._floor + 20, text_anchor="middle"))
                taken = middle + half + _CHARACTER
        floor = tag("line", x1=self._left, x2=self._right, y1=self._floor, y2=self._floor, class_="axis")
        centre = (self._left + self._right) / 2
        parts.append(floor)
        parts.append(tag("text", chart.y.title, x=4, y=16, class_="axis-title"))
        parts.append(
            tag(
                "text",
                chart.x.title,
                x=centre,
                y=layout.height - 8,
                text_anchor="middle",
                class_="axis-title",
            )
        )
        return parts

    def _path(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{number(self._x(x))},{number(self._y(y))}" for x, y in points)

    def _reference(self, reference: Reference) -> Markup:
        title = tag("title", reference.name)
        return tag("polyline", title, points=self._path(reference.points), class_="reference")

    def _series(self, index: int, series: ChartSeries) -> list[Markup]:
        path = self._path([(mark.x, mark.y) for mark in series.marks])
        parts = [tag("polyline", points=path, class_=f"line {_style(index)}")]
        for mark in series.marks:
            x = self._x(mark.x)
            if mark.bounds:
                low, high = self._y(max(mark.bounds[0], self._chart.y.low)), self._y(mark.bounds[1])
                bar = f"M{number(x)},{number(low)}V{number(high)}M{number(x - 4)},{number(low)}h8"
                parts.append(
                    tag("path", d=f"{bar}M{number(x - 4)},{number(high)}h8", class_=f"spread {_style(index)}")
                )
            parts.append(_marker(index, x, self._y(mark.y), tag("title", mark.says)))
        return parts

    def _labels(self) -> list[Markup]:
        """Return the labels to the right of and below their marks; one that would touch another is omitted."""
        taken: list[tuple[float, float, float]] = []
        parts = []
        for mark in (mark for series in self._chart.series for mark in series.marks if mark.label):
            x, y, width = self._x(mark.x) + 7, self._y(mark.y) + 15, len(mark.label) * _CHARACTER
            y = min(y, self._floor - 5)
            if all(abs(y - other_y) > 13 or x > end or x + width < start for other_y, start, end in taken):
                taken.append((y, x, x + width))
                parts.append(tag("text", mark.label, x=x, y=y, class_="mark-label"))
        return parts
