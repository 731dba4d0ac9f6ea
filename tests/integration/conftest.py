"""Fixtures of the integration tier: a farm of real sshd nodes, and temporary accounts."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import slurm_cluster
import sshd_farm as farms


def pytest_collection_modifyitems(items):
    """Everything in this directory needs a real sshd."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def _farm_possible(tier_unavailable):
    reason = farms.missing()
    if reason:
        tier_unavailable(reason)


@pytest.fixture
def sshd_farm(_farm_possible):
    """A function ``sshd_farm(n, **options) -> Farm``; see tests/support/sshd_farm.py for the options."""
    started = []

    def start(n, **options):
        started.append(farms.start_farm(n, **options))
        return started[-1]

    yield start
    for farm in started:
        farm.stop()


@pytest.fixture(scope="module")
def small_farm(_farm_possible):
    """Four healthy nodes that the tests of one module share; a test that breaks a node starts its own farm."""
    farm = farms.start_farm(4)
    yield farm
    farm.stop()


@pytest.fixture
def system_user(_farm_possible):
    """A function ``system_user(password=, sudo=, shell=) -> SystemUser``; the accounts are removed after."""
    with contextlib.ExitStack() as accounts:
        yield lambda **options: accounts.enter_context(farms.temporary_user(**options))


@pytest.fixture(scope="module")
def slurm(tier_unavailable):
    """Slurm with the nodes of a farm of two; commands over SSH find it where Slurm's own look first."""
    if reason := slurm_cluster.missing():
        tier_unavailable(reason)
    with slurm_cluster.known_everywhere(("node01", "node02")) as cluster:
        yield cluster
