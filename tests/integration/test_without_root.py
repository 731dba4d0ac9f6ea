"""Nodes whose sudo refuses the user: what an operator reads before anything is tried, and after it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FILE = Path("/etc/sysconfig/rdma/clusterctl-test")


@pytest.fixture
def fleet(sshd_farm, system_user, tmp_path):
    """Two nodes of an account with a sudo password, on which a file of root's is wanted: (environment, inventory)."""
    account = system_user(sudo="(ALL) ALL", password="the right one")
    farm = sshd_farm(2, user=account.name)
    wanted = f"{{cluster_file: {{path: {FILE}, content: {json.dumps('a line' + chr(10))}}}}}"
    return farm.env, str(farm.inventory(tmp_path, requirements=wanted))


def _bootstrap(run_clusterctl, fleet, *options, password=None):
    env, inventory = fleet
    given = {} if password is None else {"CLUSTERCTL_SUDO_PASSWORD": password}
    return run_clusterctl("bootstrap", inventory, "--only", "cluster-file", *options, env={**env, **given})


def test_a_dry_run_says_that_the_steps_will_need_root(fleet, run_clusterctl):
    done = _bootstrap(run_clusterctl, fleet, "--dry-run")
    assert done.returncode == 1
    assert "node[01-02] (2): without root: not root, and sudo without a password was refused" in done.stdout
    assert "hint: every step needs root; allow sudo without a password" in done.stdout
    assert "CLUSTERCTL_SUDO_PASSWORD" in done.stdout
    done = _bootstrap(run_clusterctl, fleet, "--dry-run", password="the right one")
    assert "without root" not in done.stdout and "(new file, mode 644)\n      + a line\n" in done.stdout


def test_a_refused_password_ends_the_bootstrap_before_the_plan(fleet, run_clusterctl):
    env, inventory = fleet
    done = _bootstrap(run_clusterctl, fleet, "--yes", password="a wrong one")
    assert done.returncode == 5
    assert done.stdout == ""
    assert "error: sudo refused the password of farm" in done.stderr
    assert "hint: correct or unset $CLUSTERCTL_SUDO_PASSWORD" in done.stderr
    assert "a wrong one" not in done.stdout + done.stderr
    assert not FILE.exists()
    done = _bootstrap(run_clusterctl, fleet, "--yes", "--json", password="a wrong one")
    assert "sudo refused the password" in json.loads(done.stdout)["error"]["message"]
    done = run_clusterctl(
        "check", inventory, "--only", "cluster-file", env={**env, "CLUSTERCTL_SUDO_PASSWORD": "a wrong one"}
    )
    assert done.stdout.count("sudo refused the password of farm") == 1
    assert "node[01-02] (2): without root: " in done.stdout
    assert "; correct $CLUSTERCTL_SUDO_PASSWORD" in done.stdout
