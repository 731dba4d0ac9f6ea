"""The console: nothing that a node wrote acts on the terminal, and no locale ends the command."""

from __future__ import annotations

import errno
import io
import json
import sys

import pytest

from clusterctl.cli import console, status_line
from clusterctl.cli.session import say_failures
from clusterctl.inventory.discover import this_machine
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


@pytest.mark.parametrize("line", ["progress", "status"])
def test_work_goes_on_when_the_terminal_is_gone(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """A window closed on a job that was disowned: every write is an error from then on."""

    class Gone(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, _: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Gone())
    if line == "progress":
        progress = status_line.Progress("gathering facts", 2)
        progress.advance(this_machine().nodes[0], None)
        progress.end()
    else:
        with status_line.StatusLine() as status:
            status.show("building")
