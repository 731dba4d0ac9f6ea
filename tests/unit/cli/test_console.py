"""The console: nothing that a node wrote acts on the terminal, and no locale ends the command."""

from __future__ import annotations

import errno
import io
import json
import logging
import re
import sys
import threading

import pytest

from clusterctl import log
from clusterctl.cli import console
from clusterctl.cli.session import say_failures
from clusterctl.cli.terminal import color, live_area
from clusterctl.cli.terminal.progress import Progress
from clusterctl.report.line import Tone, TonedLine
from clusterctl.transport.base import Failure, FailureKind

HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b31m\rb\u202ec\u2066\x08\x7f\ud800"


def acting(text: str) -> set[str]:
    return {c for c in text if c != "\n" and (ord(c) < 32 or 126 < ord(c) < 160 or c in "\u202e\u2066\ud800")}


def test_what_a_terminal_acts_on_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    console.data(HOSTILE)
    console.talk(HOSTILE)
    out, err = capsys.readouterr()
    assert out == err == "a\\x1b]0;title\\x07\\x1b[2J\\x9b31m\\x0db\\u202ec\\u2066\\x08\\x7f\\ud800\n"


def test_json_carries_it_escaped_and_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_json({"reason": HOSTILE, "é": "\n"})
    out = capsys.readouterr().out
    assert not acting(out)
    assert json.loads(out) == {"reason": HOSTILE, "é": "\n"}


def test_lines_and_tabs_stay(capsys: pytest.CaptureFixture[str]) -> None:
    console.data("a\tb\nc é 中")
    assert capsys.readouterr().out == "a\tb\nc é 中\n"


def test_an_old_locale_is_no_reason_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console.data("中")
    console.emit_json({"a": "中"})
    sys.stdout.flush()
    first, _, rest = raw.getvalue().decode("ascii").partition("\n")
    assert first == "\\u4e2d"
    assert json.loads(rest) == {"a": "中"}


def test_a_nodes_text_cannot_pose_as_another_node(capsys: pytest.CaptureFixture[str]) -> None:
    say_failures({"gpu1": Failure(FailureKind.ERROR, "no\ngpu2: refused: all lost\x1b[1A", "look")})
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("gpu")] == ["gpu1: error: no"]
    assert not acting("\n".join(lines))


class Terminal(io.StringIO):
    """What stderr is at a terminal; ``drawn`` is set by each write."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.drawn.set()
        return super().write(text)


class Gone(Terminal):
    """A window closed on a job that was disowned: every write is an error from then on."""

    def write(self, text: str) -> int:
        self.drawn.set()
        raise OSError(errno.EIO, "Input/output error")


def at(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let stderr be the terminal; not in a fixture, because pytest replaces the stream after these."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_work_goes_on_when_the_terminal_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at(Gone(), monkeypatch)
    with Progress("Gathering facts", 2, "nodes", done="Gathered facts") as progress:
        progress.start("gpu01")
        assert terminal.drawn.wait(60)
        progress.advance("gpu01")


def test_messages_stand_above_the_live_line_and_one_line_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at(Terminal(), monkeypatch)
    with Progress("Gathering facts", 2, "nodes", done="Gathered facts of 2 nodes") as progress:
        progress.start("gpu01")
        progress.start("gpu02")
        assert terminal.drawn.wait(60)
        console.talk("note: a message")
    live = "Gathering facts: 0/2 nodes, 0 s, waiting for gpu[01-02]"
    said = re.sub(r"\b[0-9]+ s\b", "0 s", terminal.getvalue())
    assert f"{live}\r\x1b[Jnote: a message\n{live}" in said
    assert re.search(r"\r\x1b\[JGathered facts of 2 nodes in [0-9.]+ s\n\Z", terminal.getvalue())


def test_no_live_line_while_a_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at(Terminal(), monkeypatch)

    class Typed(io.StringIO):
        def isatty(self) -> bool:
            return True

        def readline(self, *_: object) -> str:
            live_area.AREA.remove(nothing)  # redraws
            return "y\n"

    nothing = Progress("not shown")
    monkeypatch.setattr(sys, "stdin", Typed())
    with Progress("Gathering facts"):
        assert terminal.drawn.wait(60)
        assert console.confirm("apply 2 steps?")
    assert terminal.getvalue().endswith("apply 2 steps? [y/N] ")


def test_what_runs_on_nodes_is_folded_and_fits_the_terminal() -> None:
    progress = Progress("Applying changes", 300, "nodes")
    for number in range(1, 257):
        progress.now(f"gpu{number:03}", "gpu-driver: install\nthe driver")
    progress.now("gpu257", "reboot\x1b[2J" + "中" * 100)
    progress.start("gpu258")
    first, *rows = progress.lines(60, 6)
    assert first == "Applying changes: 0/300 nodes, 0 s, waiting for gpu258"
    assert rows[0] == "  gpu[001-256]     0 s  gpu-driver: install the driver"
    assert rows[1].startswith("  gpu257           0 s  reboot\\x1b[2J中中") and rows[1].endswith("...")
    assert len(rows) == 2
    for number in range(10):
        progress.now(f"gpu{number:03}", f"step {number}")
    assert progress.lines(60, 4)[-1] == "  ... and 10 more"
    assert len(progress.lines(60, 1)) == 1
    assert all(len(line) <= 20 for line in progress.lines(20, 8))
    progress.advance("gpu258")
    assert "gpu258" not in progress.awaited


def test_quiet_leaves_errors(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(-1, console.error)
    try:
        with Progress("Gathering facts", done="Gathered facts"):
            console.talk("note: a notice")
        console.error("error: a mistake")
        log.get("clusterctl.test").warning("a warning")
        log.get("clusterctl.test").error("a failure")
    finally:
        logging.getLogger(log.ROOT).handlers.clear()
        logging.getLogger(log.ROOT).setLevel(logging.NOTSET)
    assert capsys.readouterr().err == "error: a mistake\nerror: a failure\n"


@pytest.mark.parametrize(
    ("when", "variables", "terminal", "coloured"),
    [
        ("auto", {}, Terminal, True),
        ("auto", {}, io.StringIO, False),
        ("auto", {"TERM": "dumb"}, Terminal, False),
        ("auto", {"NO_COLOR": "1"}, Terminal, False),
        ("auto", {"NO_COLOR": ""}, Terminal, True),
        ("auto", {"FORCE_COLOR": "1"}, io.StringIO, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, io.StringIO, True),
        ("never", {"FORCE_COLOR": "1"}, Terminal, False),
    ],
)
def test_when_output_is_coloured(
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    variables: dict[str, str],
    terminal: type[io.StringIO],
    coloured: bool,
) -> None:
    for name, value in {"TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)
    stdout = terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    color.choose(color.When(when))
    try:
        console.data([TonedLine("bad  \tmemlock   \\ [red]\x1b[2J", ((0, 3, Tone.BAD),))])
    finally:
        color.choose(color.When.auto)
    red = "\x1b[31mbad\x1b[0m" if coloured else "bad"
    assert stdout.getvalue() == f"{red}  \tmemlock   \\ [red]\\x1b[2J\n"
