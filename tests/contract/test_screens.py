"""The pictures of terminals in the documents show what the code prints now, and load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from terminal_screens import SCREENS, svg

FOLDER = Path(__file__).parents[2] / "docs" / "screens"


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_current(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == svg(name), "run: make screens"


def test_no_screen_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(SCREENS)


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("name", SCREENS)
def test_every_line_of_a_screen_is_within_its_frame(name: str, columns: int) -> None:
    """rich gives each piece of text its place and length, in columns of 12.2 units."""
    text = svg(name, columns)
    assert not re.search(r"url\((?!#)|href|@import|<script", text)
    root = xml.fromstring(text)
    width = float(root.attrib["viewBox"].split()[2])
    pieces = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert len(pieces) > 10
    assert max(float(one.attrib["x"]) + float(one.attrib["textLength"]) for one in pieces) <= width
