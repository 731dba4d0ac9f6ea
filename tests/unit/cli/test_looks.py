"""Each look that a command names exists: a missing one would end the command, and only on a colour terminal."""

from __future__ import annotations

import re
from pathlib import Path

from sample_acceptance import sample_acceptance

import clusterctl
from clusterctl.cli.terminal.highlight import LOOKS, THEME, painted
from clusterctl.report.text import of_view
from clusterctl.views import accept


def test_each_look_that_is_named_exists() -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in Path(clusterctl.__file__).parent.rglob("cli/**/*.py")
    ]
    named = {look for text in texts for look in re.findall(r'\blook="([a-z-]+)"', text)}
    assert "accept" in named
    assert named <= set(LOOKS)


def test_each_group_of_a_pattern_is_a_style() -> None:
    for patterns in LOOKS.values():
        for pattern in patterns:
            assert set(re.compile(pattern).groupindex) <= set(THEME.styles)


def test_the_verdicts_of_accept_are_coloured() -> None:
    text = of_view.render(accept.view(sample_acceptance()))
    shown = painted(text, "accept")
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == text
    for word in ("\x1b[31mbad", "\x1b[33mnot measured", "\x1b[33munsure"):
        assert f"{word}\x1b[0m" in shown
