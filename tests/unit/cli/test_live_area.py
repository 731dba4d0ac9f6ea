"""The live area draws only while the terminal belongs to this job."""

from __future__ import annotations

import io
import threading

import pytest

from clusterctl.cli.terminal import live_area
from clusterctl.cli.terminal.live_area import LiveArea
from clusterctl.cli.terminal.progress import Progress


class Source:
    def __init__(self) -> None:
        self.drawn = threading.Event()

    def lines(self, width: int, height: int) -> list[str]:
        self.drawn.set()
        return ["first of two", "second of two"]


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Replace stderr; called in a test, because pytest sets the streams again after the fixtures."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    return written


def test_a_background_job_draws_no_line_above_or_below_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    looked = threading.Event()

    def in_background() -> bool:
        looked.set()
        return False

    monkeypatch.setattr(live_area, "_in_foreground", in_background)
    area, source, other = LiveArea(), Source(), Source()
    area.add(source)
    area.add(other)
    assert looked.wait(60), "a redraw was due"
    for number in (1, 2):
        with area.above():
            screen.write(f"message {number}\n")
    area.remove(source)
    area.remove(other)
    assert "of two" not in screen.getvalue() and "message 2" in screen.getvalue()


def test_lines_are_erased_before_a_message_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(live_area, "_in_foreground", lambda: True)
    area, source = LiveArea(), Source()
    area.add(source)
    assert source.drawn.wait(60)
    with area.above():
        screen.write("a message\n")
    area.remove(source)
    erased = "\r\x1b[1A\x1b[J"
    lines = "first of two\nsecond of two"
    assert screen.getvalue() == f"{lines}{erased}a message\n{lines}{erased}"


@pytest.mark.parametrize(("length", "end"), [(77, ""), (78, "\r"), (79, "\r")])
def test_ctrl_c_is_echoed_inside_the_last_line(
    monkeypatch: pytest.MonkeyPatch, length: int, end: str
) -> None:
    screen = terminal(monkeypatch)

    class Wide(Source):
        def lines(self, width: int, height: int) -> list[str]:
            super().lines(width, height)
            return ["first", "x" * length]

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(live_area, "_in_foreground", lambda: True)
    area, source = LiveArea(), Wide()
    area.add(source)
    assert source.drawn.wait(60)
    area.remove(source)
    assert screen.getvalue() == "first\n" + "x" * length + end + "\r\x1b[1A\x1b[J"


def test_a_short_phase_shows_no_line():
    assert Progress("Reading runs", 3, "runs", after_s=1e9).lines(80, 5) == []
    assert Progress("Reading runs", 3, "runs").lines(80, 5) == ["Reading runs: 0/3 runs, 0 s"]
