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


@pytest.mark.parametrize("name", REQUIREMENT_NAMES)
def test_the_page_is_for_operators_and_names_no_test(name):
    """``traps.yaml`` has the cases of each trap."""
    cases = {f"{path.parent.name}/{path.stem}" for path in Path(__file__).parent.glob("*/*.yaml")}
    text = (PAGES / f"{name}.md").read_text()
    assert not [case for case in cases if f"{case}.yaml" in text] and "tests/requirements" not in text


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
