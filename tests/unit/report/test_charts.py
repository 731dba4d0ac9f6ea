"""Axes with round ticks, and drawings in which nothing lies outside and no two words touch."""

import re

import pytest
from bench_documents import point, row

from clusterctl.documents.bench import VariantPoint, VariantRow
from clusterctl.report.html import chart
from clusterctl.report.scale import (
    Scale,
    bandwidth,
    duration,
    linear_ticks,
    log_bounds,
    log_ticks,
    size_ticks,
)
from clusterctl.views import charts


def labels(ticks):
    return [tick.label for tick in ticks]


@pytest.mark.parametrize(
    ("high", "count", "expected"),
    [
        (370, 6, ["0", "100", "200", "300", "400"]),
        (0.9, 5, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (4.68, 6, ["0", "1", "2", "3", "4", "5"]),
        (0.011, 5, ["0.0000", "0.0025", "0.0050", "0.0075", "0.0100", "0.0125"]),
        (83784, 6, ["0", "20000", "40000", "60000", "80000", "100000"]),
        (0, 6, ["0"]),
    ],
)
def test_linear_ticks_are_round_and_reach_the_highest(high, count, expected):
    assert labels(linear_ticks(high, count)) == expected


def test_sizes_are_marked_at_powers_of_two_as_people_name_them():
    assert labels(size_ticks(1024, 1 << 30, 5)) == ["1 KiB", "32 KiB", "1 MiB", "32 MiB", "1 GiB"]
    assert labels(size_ticks(8, 16 << 20, 5)) == ["8 B", "256 B", "8 KiB", "256 KiB", "8 MiB"]
    assert labels(size_ticks(8, 64, 10)) == ["8 B", "16 B", "32 B", "64 B"]
    assert labels(size_ticks(1000, 1001, 5)) == ["1000 B"]


def test_times_are_marked_by_decades_or_finer_where_they_are_few():
    assert labels(log_ticks(*log_bounds(10.2, 4530), duration)) == ["10 µs", "100 µs", "1 ms", "10 ms"]
    assert labels(log_ticks(*log_bounds(2e-6, 30.0), bandwidth)) == [
        "1 kB/s", "10 kB/s", "100 kB/s", "1 MB/s", "10 MB/s", "100 MB/s", "1 GB/s", "10 GB/s", "100 GB/s"
    ]  # fmt: skip
    assert labels(log_ticks(*log_bounds(6.5, 31), duration)) == ["5 µs", "10 µs", "20 µs", "50 µs"]
    assert labels(log_ticks(*log_bounds(6.5, 7.5), duration)) == ["2 µs", "5 µs", "10 µs"]
    assert [duration(v) for v in (0.25, 1500, 2.5e6)] == ["250 ns", "1.5 ms", "2.5 s"]


def test_a_scale_maps_its_bounds_to_its_pixels():
    assert [Scale(1, 100, 0, 50, log=True)(value) for value in (1, 10, 100, 0)] == [0, 25, 50, 0]
    assert [Scale(0, 10, 300, 0)(value) for value in (0, 10)] == [300, 0]
    assert Scale(5, 5, 0, 10)(5) == 5


def rows(*sizes, busbw_gbps=lambda size: size / 1e6):
    return [VariantRow.model_validate(row(s, 5 + s / 1e5, busbw_gbps(s))) for s in sizes]


def curve(*ranks):
    return [VariantPoint.model_validate(point(n, 2561.0 * n * 0.98, efficiency=0.98)) for n in ranks]


CHARTS = {
    "a sweep": charts.busbw([("nccl", rows(*(2**p for p in range(3, 34))))], [("expected", 366.0)]),
    "one size": charts.busbw([("nccl", rows(1 << 20))]),
    "nothing but zero": charts.busbw([("x", rows(8, 32, busbw_gbps=lambda _: 0.0))]),
    "odd sizes": charts.busbw([("x", rows(1000, 77777, 900001))]),
    "sizes between powers of two": charts.busbw([("x", rows(1100, 1200, 1300))]),
    "times": charts.times([("x", rows(*(2**p for p in range(3, 34))))]),
    "one time": charts.times([("x", rows(1 << 20))]),
    "scaling": charts.scaling([("x", curve(1, 2, 4, 8, 16, 32, 64, 128, 256), {"256": 12.0})]),
    "two neighbours": charts.scaling([("x", curve(255, 256), {})]),
    "one rank": charts.scaling([("x", curve(1), {})]),
    "eight runs": charts.busbw([(f"run {i}", rows(1024, 1 << 20, 1 << 30)) for i in range(8)]),
}


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("kind", ["wide", "narrow"])
def test_nothing_lies_outside_and_no_two_words_touch(name, kind):
    text = str(chart.draw(CHARTS[name]))
    (drawing,) = re.findall(rf'<svg class="chart {kind}".*?</svg>', text, re.DOTALL)
    width, height = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawing).groups())
    for key, value in re.findall(r' (x|y|x1|x2|y1|y2|cx|cy)="([-0-9.]+)"', drawing):
        assert 0 <= float(value) <= (width if "x" in key else height), (key, value)
    for pair in re.findall(r' points="([^"]*)"', drawing):
        for x, y in (map(float, one.split(",")) for one in pair.split()):
            assert -1 <= x <= width + 1 and -1 <= y <= height + 1
    boxes = []
    for attributes, word in re.findall(r"<text([^>]*)>([^<]*)</text>", drawing):
        x, y = (float(re.search(rf' {key}="([-0-9.]+)"', attributes)[1]) for key in "xy")
        long = len(word) * 7.4
        anchor = re.search(r'text-anchor="(\w+)"', attributes)
        left = x - {None: 0, "middle": long / 2, "end": long}[anchor and anchor[1]]
        boxes.append((left, left + long, y - 9, y, word))
        assert left >= -2 and left + long <= width + 2, (word, left, left + long)
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
            assert apart, (one, other)


def test_nothing_measured_is_no_chart():
    nothing = [VariantRow.model_validate(row(8, 0.0))]
    assert charts.busbw([("x", nothing)]) is None
    assert charts.times([("x", nothing)]) is None
    assert charts.scaling([("x", [], {})]) is None


def test_the_bound_is_drawn_where_it_is():
    text = str(
        chart.draw(
            charts.busbw([("nccl", rows(1024, 1 << 30, busbw_gbps=lambda _: 50.0))], [("bound", 100.0)])
        )
    )
    (line,) = re.findall(r'<polyline points="([^"]*)" class="reference"><title>bound', text)[:1]
    (left, y), (right, other) = (map(float, pair.split(",")) for pair in line.split())
    marks = {
        float(y) for y in re.findall(r'<circle cx="[^"]*" cy="([^"]*)"', text.split("</svg>", maxsplit=1)[0])
    }
    assert y == other and left < right
    assert all(y < mark for mark in marks)


def test_series_differ_in_marker_and_not_in_colour_alone():
    text = str(chart.draw(CHARTS["eight runs"])).split("</svg>")[0]
    shapes = set()
    for index in range(8):
        style = f"s{index % chart.SERIES_STYLES + 1}"
        kinds = re.findall(rf'<(circle|rect|polygon)[^>]*class="marker {style}"', text)
        assert kinds
        shapes |= {(style, kind) for kind in kinds}
    assert len({style for style, _ in shapes}) == chart.SERIES_STYLES
