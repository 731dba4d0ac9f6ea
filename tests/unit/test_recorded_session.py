"""The comparison of a page's sessions with what a terminal shows finds each difference that matters."""

from __future__ import annotations

import pytest
from recorded_session import Shown, difference, shown_in

PRINTED = "gpu[01-02] (2 nodes)\n\nunmet  memlock   8 KiB\nrun: 20261124T103053Z-check-b6df\ntook 1.5 s\n"


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (PRINTED, None),
        ("gpu[01-02] (2 nodes)\nunmet memlock ...\nrun: 20250101T000000Z-check-0000\ntook 0.9 s", None),
        ("...\ntook 7.0 s", None),
        ("gpu[01-02] (2 nodes)\n... the rest", None),
        ("gpu[01-02] (3 nodes)\n...", "gpu[01-02] (3 nodes)"),
        ("gpu[01-02] (2 nodes)\nrun: ...", "run: ..."),
        ("...\nmet memlock", "met memlock"),
        ("gpu[01-02] (2 nodes)", "the end of the output, before 'unmet memlock 8 KiB'"),
    ],
)
def test_a_difference_is_the_first_line_that_is_not_printed(shown, missing):
    assert difference(shown, PRINTED) == missing


def test_the_commands_of_a_page_are_found_in_their_order():
    page = "# Page\n```console\n$ one --x\nout\n\n$ two\n```\n```bash\nthree\n```\n```console\n$ four\nmore\n```\n"
    assert shown_in(page) == [Shown("one --x", "out\n\n"), Shown("two", ""), Shown("four", "more\n")]
