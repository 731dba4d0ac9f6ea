"""``--drain`` with a real slurmctld: a faulty node is drained and undrained, a person's drain stays."""

from __future__ import annotations

import json

import pytest
import slurm_cluster

NODES = ("node01", "node02")


@pytest.fixture(scope="module")
def slurm(tier_unavailable):
    if reason := slurm_cluster.missing():
        tier_unavailable(reason)
    cluster = slurm_cluster.start_slurm(NODES)
    yield cluster
    cluster.stop()


def _drain_reasons(slurm):
    shown = slurm.run("sinfo", "--noheader", "-N", "-o", "%N|%t|%E").stdout
    # A star marks a node that slurmctld has yet to hear from again.
    rows = [line.split("|") for line in shown.splitlines()]
    return {name: (state.rstrip("*"), reason) for name, state, reason in rows}


def test_a_faulty_node_is_drained_and_undrained_and_a_persons_drain_stays(
    slurm, sshd_farm, run_clusterctl, tmp_path
):
    farm = sshd_farm(3)
    path = farm.inventory(tmp_path)
    well, env = path.read_text(), {**farm.env, **slurm.env}
    faulty = well.replace(
        "name: node01\n", "name: node01\n    requirements: {disk: {min_free_mib: 9000000}}\n"
    )
    faulty = faulty.replace(
        "name: node03\n", "name: node03\n    requirements: {disk: {min_free_mib: 9000000}}\n"
    )
    slurm.run("scontrol", "update", "NodeName=node02", "State=DRAIN", "Reason=clusterctl: bad DIMM")

    def check(text, how):
        path.write_text(text)
        return run_clusterctl("check", str(path), "--only", "disk", "--drain", how, env=env)

    printed = check(faulty, "print")
    assert (
        printed.returncode == 1
        and "scontrol update NodeName=node01 State=DRAIN 'Reason=clusterctl: disk: " in (printed.stdout)
    )
    assert _drain_reasons(slurm)["node01"] == ("idle", "none")

    drained = check(faulty, "slurm")
    assert drained.returncode == 1, drained.stderr
    assert "drained node01 in Slurm: clusterctl: disk: " in drained.stdout
    assert "note: node03: not a node of Slurm, so not drained" in drained.stderr
    state, reason = _drain_reasons(slurm)["node01"]
    (run,) = [
        line.rpartition("/")[2] for line in drained.stderr.splitlines() if line.startswith("run folder: ")
    ]
    assert state == "drain" and reason.startswith("clusterctl: disk: ") and reason.endswith(f"({run})")

    again = check(faulty, "slurm")
    assert "note: node01 was already drained: clusterctl: disk: " in again.stderr
    assert _drain_reasons(slurm)["node01"] == (state, reason)

    undrained = check(well, "slurm")
    assert undrained.returncode == 0, undrained.stderr
    assert "undrained node01 in Slurm" in undrained.stdout
    assert "note: node02 stays drained, without a fault here: clusterctl: bad DIMM" in undrained.stderr
    assert _drain_reasons(slurm)["node01"] == ("idle", "none")
    assert _drain_reasons(slurm)["node02"] == ("drain", "clusterctl: bad DIMM")


def test_accept_drains_a_node_that_fails_and_lifts_its_own_drain(slurm, sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(2)
    path = farm.inventory(tmp_path)
    well, env = path.read_text(), {**farm.env, **slurm.env}

    def accept(text):
        path.write_text(text)
        return run_clusterctl(
            "accept", str(path), "--only", "requirements", "--drain", "slurm", "--json", env=env
        )

    lacking = well.replace("name: node01\n", "name: node01\n    requirements: {rdma_link: {require: true}}\n")
    done = accept(lacking)
    assert done.returncode == 1, done.stderr
    state, reason = _drain_reasons(slurm)["node01"]
    assert state == "drain" and reason.startswith("clusterctl: requirements: rdma-link: ")
    assert reason.endswith(f"({json.loads(done.stdout)['run']})")
    assert accept(well).returncode == 0
    assert _drain_reasons(slurm)["node01"] == ("idle", "none")


def test_without_slurmctld_nothing_is_measured(small_farm, run_clusterctl, tmp_path):
    inventory = str(small_farm.inventory(tmp_path))
    (tmp_path / "slurm.conf").touch()
    env = {**small_farm.env, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    done = run_clusterctl("accept", inventory, "--only", "kernel-log", "--drain", "slurm", env=env)
    assert done.returncode == 6, done.stderr
    assert "scontrol --oneliner show node: exit status 1" in done.stderr
    assert not (tmp_path / "runs").exists()
