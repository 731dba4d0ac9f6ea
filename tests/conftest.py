"""What all tiers share: the installed command, and a missing tier that fails in CI and says why elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what ``make test`` gives, and what a developer in search of a fault leaves out."""
    parser.addoption(
        "--run-again", action="store_true", help="Run a failed test of integration, lab or core once more."
    )


def pytest_report_header() -> str:
    """Say how the same points of long sweeps are tried again."""
    from soak import SEED

    return f"sweeps: SWEEP_SEED={SEED}"


def pytest_configure(config: pytest.Config) -> None:
    """Let interrupts through: a shell that starts a test run in the background has them ignored, for children too.

    And let no example fail because the machine is busy: hypothesis allows one 0.2 s, and a few the time to be drawn.
    The examples are those of the run before, so that a commit that passed does not fail by chance.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile(
        "busy machine",
        deadline=None,
        derandomize="CLUSTERCTL_FUZZ_SEED" not in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("busy machine")
    if config.getoption("run_again"):
        from run_again import RunAgain

        config.pluginmanager.register(RunAgain(), "run-again")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each group of tests with real parts to one worker, where there are several."""
    from worker_groups import GroupScheduling

    return GroupScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest groups begin, where there are several workers."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        from worker_groups import place_of

        items.sort(key=lambda item: place_of(item.nodeid))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave the processors to tests with real parts, and check that a group of these has one worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    from worker_groups import FREE_NICENESS, group_of, is_free

    if not is_free(item.nodeid):
        group = group_of(item.nodeid).replace("/", "-")
        basetemp: Path = item.config._tmp_path_factory.getbasetemp()
        with (basetemp.parent / f"worker-of-{group}").open("a+") as claim:
            claim.seek(0)
            assert (claim.read() or worker) == worker, (
                f"the tests of the group {group} disturb each other on two workers"
            )
            claim.truncate(0)
            claim.write(worker)
    elif os.nice(0) < FREE_NICENESS:
        # Never back, which would take root: a worker has free tests after those with real parts.
        os.nice(FREE_NICENESS - os.nice(0))


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the run folders of commands without an inventory out of the state directory of the tests' user."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def clusterctl() -> Path:
    """The console script that was installed beside this interpreter."""
    script = Path(sys.executable).parent / "clusterctl"
    assert script.is_file(), f"{script} is missing: make install first"
    return script


@pytest.fixture
def run_clusterctl(clusterctl: Path, tmp_path: Path) -> Run:
    """Run the installed command in an empty directory, with its run folders below it."""

    def run(
        *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 300, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}
        environment |= {"CLUSTERCTL_RUNS": str(tmp_path / "runs"), **(env or {})}
        return subprocess.run(
            [str(clusterctl), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment,
            cwd=cwd or tmp_path,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return run


def unavailable(reason: str) -> None:
    """End a test whose tier cannot run here: a failure in CI, elsewhere a skip that says why."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"this tier must run in CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def tier_unavailable() -> Callable[[str], None]:
    """``unavailable`` for the tiers' own fixtures."""
    return unavailable
