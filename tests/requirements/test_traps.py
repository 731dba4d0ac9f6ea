"""Every trap of the field has its recorded cases, each of which says which trap it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl import resources

HERE = Path(__file__).parent
TRAPS = {
    f"{section} {trap}": (section, cases)
    for section, traps in resources.table(HERE / "traps.yaml").items()
    for trap, cases in traps.items()
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_has_cases_that_name_it(trap):
    section, cases = TRAPS[trap]
    assert cases
    for case in cases:
        about = resources.table(HERE / f"{case}.yaml")["about"]
        assert about.startswith(f"Trap {section}: "), f"{case}: {about}"


def test_no_case_names_a_trap_that_is_not_listed():
    listed = {case for _, cases in TRAPS.values() for case in cases}
    naming = {
        f"{path.parent.name}/{path.stem}"
        for path in HERE.glob("*/*.yaml")
        if resources.table(path)["about"].startswith("Trap 3.")
    }
    assert naming == listed
