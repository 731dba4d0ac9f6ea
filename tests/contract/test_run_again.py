"""A test with real parts that fails is run once more, with fixtures of its own, and the run tells so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import run_again

pytest_plugins = ["pytester"]
TESTS = Path(__file__).resolve().parents[1]
# What a test counts survives it in a file beside it.
FIXTURES = """\
from pathlib import Path
import pytest

def times(what):
    counted = Path(__file__).with_suffix("." + what)
    counted.write_text((counted.read_text() if counted.exists() else "") + "x")
    return len(counted.read_text())

@pytest.fixture(scope="session")
def farm():
    return {"nodes": 4}

@pytest.fixture(scope="module")
def guest(farm):
    assert times("guest") > 1, "the guest did not boot"
    return farm

@pytest.fixture(scope="module")
def leaks():
    yield
    assert times("gone") > 1, "a process was left behind"
"""
BREAKS_ITS_FARM = """
def test_one(farm):
    farm["nodes"] -= times("one")
    print("what the first try printed")
    assert times("tries") > 1 and farm["nodes"] == 2, "a node of the farm is lost"

def test_two(farm):
    assert farm["nodes"] == 2
"""
PASSES_THE_SECOND_TIME = """
@pytest.mark.parametrize("number", range({}))
def test_it(number):
    assert times(str(number)) > 1, "lost a race"
"""


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run tests, by the path of their file, with the configuration of the project's tests."""
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    pytester.makeini(
        f"[pytest]\npythonpath = {TESTS / 'support'}\naddopts = -p no:cacheprovider --import-mode=importlib"
    )

    def run(files: dict[str, str], *arguments: str) -> tuple[int, dict[str, int], str]:
        for name, text in files.items():
            path = pytester.path / "tests" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(FIXTURES + text)
        done = pytester.runpytest_subprocess("tests", *arguments)
        return int(done.ret), done.parseoutcomes(), done.stdout.str()

    return run


def test_the_second_try_has_fixtures_of_its_own(run) -> None:
    status, outcomes, said = run({"integration/test_a.py": BREAKS_ITS_FARM}, "--run-again")
    assert (status, outcomes) == (0, {"passed": 2, "rerun": 1}), said
    assert "WARNING tests/integration/test_a.py::test_one: passed only when run again" in said
    assert "AssertionError: a node of the farm is lost" in said and "what the first try printed" in said


def test_a_fixture_that_failed_is_made_again(run) -> None:
    status, outcomes, said = run({"lab/test_a.py": "\ndef test_it(guest):\n    pass\n"}, "--run-again")
    assert (status, outcomes) == (0, {"passed": 1, "rerun": 1}), said
    assert "the guest did not boot" in said


def test_what_is_left_behind_is_a_fault(run) -> None:
    status, outcomes, said = run({"lab/test_a.py": "\ndef test_it(leaks):\n    pass\n"}, "--run-again")
    assert (status, outcomes) == (1, {"passed": 1, "errors": 1}), said


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("integration/test_a.py", ()),
        ("unit/test_a.py", ("--run-again",)),
        ("contract/test_a.py", ("--run-again",)),
    ],
)
def test_others_are_not_run_again(run, file, options) -> None:
    status, outcomes, said = run({file: PASSES_THE_SECOND_TIME.format(1)}, *options)
    assert (status, outcomes) == (1, {"failed": 1}), said


def test_a_test_that_fails_twice_fails(run) -> None:
    status, outcomes, said = run(
        {"core/test_a.py": "\ndef test_it():\n    assert not times('try')\n"}, "--run-again"
    )
    assert (status, outcomes) == (1, {"failed": 1, "rerun": 1}), said
    assert "tests/core/test_a.py::test_it: failed twice" in said


@pytest.mark.parametrize(("count", "status"), [(1, 0), (2, 1)])
def test_more_than_three_on_all_workers_fail_the_run(run, count, status) -> None:
    files = {f"{tier}/test_a.py": PASSES_THE_SECOND_TIME.format(count) for tier in ("integration", "core")}
    found, outcomes, said = run(files, "--run-again", "-n", "2")
    assert (found, outcomes) == (status, {"passed": 2 * count, "rerun": 2 * count}), said
    assert ("4 tests were run again, more than 3: this run fails" in said) == bool(status)


def test_a_broken_machine_does_not_run_everything_twice(run) -> None:
    status, outcomes, said = run({"lab/test_a.py": PASSES_THE_SECOND_TIME.format(9)}, "--run-again")
    assert (status, outcomes) == (1, {"passed": 4, "rerun": 4, "failed": 5}), said


@pytest.mark.parametrize(
    ("failed", "seconds", "again"),
    [
        ("call", 200.0, True),
        ("call", 301.0, False),
        ("setup", 1.0, True),
        ("teardown", 1.0, False),
        ("", 1.0, False),
    ],
)
def test_only_what_failed_by_itself_and_soon_is_run_again(failed, seconds, again) -> None:
    reports = [
        SimpleNamespace(when=when, failed=when == failed, duration=seconds / 3)
        for when in ("setup", "call", "teardown")
    ]
    assert run_again.deserves(reports) is again
