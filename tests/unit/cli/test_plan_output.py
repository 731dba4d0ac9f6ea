"""A plan goes to stdout, and to the screen as well if a question follows and stdout is not the screen."""

from __future__ import annotations

import pytest

from clusterctl.cli import plan_output
from clusterctl.report.line import TonedLine


@pytest.mark.parametrize(
    ("on_stdout", "on_screen", "terminal", "streams"),
    [
        (True, False, False, "o"),
        (True, True, True, "o"),
        (True, True, False, "oe"),
        (False, True, True, "e"),
        (False, False, True, ""),
    ],
)
def test_where_a_plan_goes(capsys, monkeypatch, on_stdout, on_screen, terminal, streams):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    plan_output.show([TonedLine("the plan")], on_stdout=on_stdout, on_screen=on_screen)
    out, err = capsys.readouterr()
    assert (out, err) == tuple("the plan\n" * (stream in streams) for stream in "oe")
