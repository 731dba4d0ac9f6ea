"""Terminals show the tones of cells, items and lines as colours, and each tone has one."""

from __future__ import annotations

import re

from sample_acceptance import sample_acceptance

from clusterctl.cli.terminal import color
from clusterctl.report.line import Tone, TonedLine, labelled
from clusterctl.report.text import of_view
from clusterctl.views import accept


def test_each_tone_has_a_colour() -> None:
    for tone in set(Tone) - {Tone.PLAIN}:
        assert re.fullmatch(r"\x1b\[\d+mx\x1b\[0m", color.painted(TonedLine("x", ((0, 1, tone),))))
    assert color.painted(TonedLine("ab", ((0, 1, Tone.PLAIN), (1, 2, Tone.BAD)))) == "a\x1b[31mb\x1b[0m"


def test_the_verdicts_of_accept_are_coloured() -> None:
    lines = of_view.lines(accept.view(sample_acceptance()))
    shown = "\n".join(map(color.painted, lines))
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == "\n".join(line.text for line in lines)
    for word in ("\x1b[31mbad", "\x1b[33mnot measured", "\x1b[33munsure"):
        assert f"{word}\x1b[0m" in shown


def test_a_message_shows_its_own_label_and_no_other() -> None:
    assert labelled("    hint: type the password").marks == ((4, 8, Tone.NAME),)
    assert labelled("gpu01: refused", Tone.BAD).marks == ((0, 5, Tone.BAD),)
    assert labelled("hint: retry", Tone.BAD).marks == ((0, 4, Tone.NAME),)
    assert labelled("gpu01: refused").marks == labelled("no label").marks == ()


def test_text_between_marks_is_made_harmless_too() -> None:
    line = TonedLine("\x07a\x07b", ((1, 3, Tone.BAD),))
    assert color.painted(line, lambda text: text.replace("\x07", "?")) == "?\x1b[31ma?\x1b[0mb"
