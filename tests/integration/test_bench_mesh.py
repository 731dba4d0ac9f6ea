"""``clusterctl bench`` across two real sshd nodes: mpirun on the first reaches the second by SSH."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

SMALL = ("--collective", "all_reduce", "--library", "gloo", "-b", "8", "-e", "4K", "-n", "2", "--json")


@pytest.fixture(autouse=True)
def _mpirun(tier_unavailable):
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")


def inventory(farm, tmp_path, **more):
    return str(farm.inventory(tmp_path, socket_ifname="lo", slots=1, python=sys.executable, **more))


def failures(done):
    return {fault["kind"]: fault for fault in json.loads(done.stdout)["proof"]["failures"]}


def test_two_nodes_reduce_together(run_clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(2)
    before = farm.nodes[1].connections
    done = run_clusterctl("bench", "-i", inventory(farm, tmp_path), *SMALL, env=farm.env)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [rank["rank"] for rank in document["proof"]["ranks"]] == [0, 1]
    assert document["launcher"] == "openmpi"
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    (launch,) = json.loads((folder / "launch.json").read_text())["launches"]
    assert launch["node_of_rank"] == ["node01", "node02"]
    # mpirun's own connection came through the second node's sshd, beside those of the controller and the mesh test.
    assert "orted" in farm.nodes[1].log_text() or farm.nodes[1].connections - before >= 4
    secret = [word for word in launch["argv"] if "SECRET" in word]
    assert secret == ["CCORE_JOB_SECRET"]


def test_a_launching_node_that_cannot_reach_its_peer_is_named(run_clusterctl, sshd_farm, tmp_path):
    """The controller reaches both nodes, but the first has no key for the second: named before mpirun can hang."""
    farm = sshd_farm(2)
    # Through ssh_config the controller knows the identity; the inventory names one that no node has.
    config = farm.directory / "ssh_config"
    config.write_text(f"Host *\n  IdentityFile {farm.identity_file}\n")
    path = farm.inventory(tmp_path, socket_ifname="lo", slots=1, python=sys.executable)
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if "identity_file" not in line)
    )
    done = run_clusterctl("bench", "-i", str(path), *SMALL, env={**farm.env, "HOME": str(tmp_path)})
    assert done.returncode == 10, done.stderr
    fault = failures(done)["ssh-mesh"]
    assert fault["node"] == "node02"
    assert "node01 cannot reach node02" in fault["message"]


def test_a_node_that_is_down_is_named_and_nothing_is_started(run_clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(1, refusing=1)
    done = run_clusterctl("bench", "-i", inventory(farm, tmp_path), *SMALL, env=farm.env)
    assert done.returncode == 5, done.stderr
    assert failures(done)["node-unreachable"]["node"] == "node02"
    assert json.loads(done.stdout)["status"] == "failed"


def test_a_node_that_goes_down_during_a_run_is_named(clusterctl, sshd_farm, tmp_path):
    """Its daemon, orted and rank die at once, as with the power; the launch ends long before its deadline."""
    farm = sshd_farm(2)
    process = subprocess.Popen(
        [str(clusterctl), "bench", "-i", inventory(farm, tmp_path), "--library", "gloo", "-b", "1M", "-e", "1M",
         "-n", "100000", "--timeout", "200", "--json"],
        env={**os.environ, **farm.env, "CLUSTERCTL_RUNS": str(tmp_path / "runs")}, cwd=tmp_path, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 90
        while not any("Rank  1" in log.read_text() for log in (tmp_path / "runs").glob("*/logs/rank-0.log")):
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()
            time.sleep(0.2)
        farm.node("node02").stop()
        stopped = time.monotonic()
        out, err = process.communicate(timeout=150)
    finally:
        process.kill()
    assert process.returncode == 10, err
    faults = {fault["kind"]: fault for fault in json.loads(out)["proof"]["failures"]}
    assert faults["node-lost"]["node"] == "node02"
    assert time.monotonic() - stopped < 100
