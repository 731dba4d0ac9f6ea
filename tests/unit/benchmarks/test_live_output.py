"""What rank 0 prints while it runs: rows and windows in text that arrives in pieces, and lines that are neither."""

import json
from pathlib import Path

import pytest

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.live_output import LiveOutput, RankStarted, Window

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
MARK = "clusterctl-record "


def record(**fields):
    return MARK + json.dumps({"rank": 0, **fields}) + "\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("length", [7, 1 << 20])
def test_the_rows_are_those_of_the_table(path, length):
    text = path.read_text()
    live = LiveOutput()
    found = [one for at in range(0, len(text), length) for one in live.read(text[at : at + length])]
    rows = [one for one in found if isinstance(one, perf_output.Row)]
    whole = list(perf_output.parse(text).rows)
    # A row that NCCL's log cuts in two is found only in the complete output.
    assert rows == [row for row in whole if row in rows]
    assert len(rows) >= len(whole) - 1
    assert not rows or isinstance(found[0], RankStarted)


def test_the_windows_of_rank_0_are_read():
    live = LiveOutput()
    window = {"kind": "window", "number": 2, "windows": 5, "samples_per_s": 24.5, "sample": "image"}
    assert live.read(record(kind="start")) == [RankStarted()]
    assert live.read(record(**window)[:20]) == []
    assert live.read(record(**window)[20:]) == [Window(2, 5, 24.5, "image")]


@pytest.mark.parametrize(
    "text",
    [
        MARK + "{not json\n",
        MARK + '{"kind": "window"}\n',
        record(kind="window", number=6, windows=5, samples_per_s=1.0),
        record(kind="window", number=1, windows=5, samples_per_s=float("inf")),
        record(kind="window", number=True, windows=5, samples_per_s=1.0),
        record(kind="window", rank=1, number=1, windows=5, samples_per_s=1.0),
        "8 2 float sum -1 1.0 1.0 1.0 0 1.0 1.0 1.0 0\n",
        "x" * 100_000 + "\n",
    ],
)
def test_other_lines_are_ignored(text):
    assert LiveOutput().read(text) == []


def test_a_line_without_an_end_does_not_fill_the_memory():
    live = LiveOutput()
    for _ in range(100):
        assert live.read("x" * 100_000) == []
    assert len(live.__dict__["_rest"]) < 10_000
