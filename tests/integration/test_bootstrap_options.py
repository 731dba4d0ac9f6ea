"""The options of ``bootstrap`` as they are typed: refused when they make no sense, and stored for ``--resume``."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    "options",
    [("--batch", "some"), ("--batch", "0"), ("--max-failures", "101%"), ("--node-timeout", "0")],
)
def test_an_amount_that_makes_no_sense_is_a_mistake_of_the_command_line(run_clusterctl, options):
    done = run_clusterctl("bootstrap", "--yes", "--local", *options)
    assert done.returncode == 2
    assert options[0] in done.stderr


def test_rolling_is_stored_for_resume(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1, refusing=1)
    options = ("--only", "rdma-link", "--batch", "25%", "--max-failures", "3", "--json")
    done = run_clusterctl("bootstrap", "--yes", *options, str(farm.inventory(tmp_path)), env=farm.env)
    run = json.loads(done.stdout)["run"]
    stored = json.loads((tmp_path / "runs" / run / "apply.json").read_text())["options"]
    assert (stored["batch"], stored["max_failures"]) == ("25%", "3")
