"""Every requirement has a page, and the page answers what an operator asks at night."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl.inventory import reference
from clusterctl.inventory.field_types import REQUIREMENT_NAMES
from clusterctl.inventory.requirement_settings import RequirementSettings
from clusterctl.requirements.catalog import ALL

PAGES = Path(__file__).parents[2] / "docs" / "requirements"


def test_every_stable_name_has_its_requirement():
    assert set(ALL) == set(REQUIREMENT_NAMES)


@pytest.mark.parametrize("name", REQUIREMENT_NAMES)
def test_the_page_says_how_it_is_judged_changed_and_taken_back(name):
    text = (PAGES / f"{name}.md").read_text().lower()
    assert text.startswith((f"# `{name}`", f"# {name}"))
    for word in ("judge", "bootstrap", "undo", "trap"):
        assert word in text, f"{name}.md says nothing of {word}"
    assert len(text.split()) > 120


def test_there_is_no_page_without_a_requirement():
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} <= set(REQUIREMENT_NAMES)


def test_every_case_of_a_trap_is_named_on_its_page():
    """A page that lists traps names cases that are there."""
    import re

    cases = Path(__file__).parent
    for page in PAGES.glob("*.md"):
        for case in re.findall(r"`(?:tests/requirements/)?([a-z-]+/[a-z0-9_]+)\.yaml`", page.read_text()):
            assert (cases / f"{case}.yaml").is_file(), f"{page.name} names {case}, which is not there"


@pytest.mark.parametrize("name", REQUIREMENT_NAMES)
def test_every_requirement_is_described(name):
    about = ALL[name].ABOUT
    for text in (about.checks, about.why, about.bootstrap, about.undo):
        assert text and not text.endswith(".") and not text[0].isspace()
    shipped = reference.shipped()
    for path in about.settings:
        assert list(shipped.keys_at(path)), path


def test_every_section_of_settings_belongs_to_a_requirement():
    listed = {path.split(".")[1] for one in ALL.values() for path in one.ABOUT.settings if "." in path}
    assert set(RequirementSettings.model_fields) - listed == {"skip"}


def test_the_table_of_all_pages_has_the_same_words():
    rows = [
        f"| [`{name}`]({name}.md) | {one.ABOUT.checks} | {one.ABOUT.bootstrap} |" for name, one in ALL.items()
    ]
    found = [line for line in (PAGES / "README.md").read_text().splitlines() if line.startswith("| [`")]
    assert found == rows, "docs/requirements/README.md should have these rows:\n" + "\n".join(rows)
