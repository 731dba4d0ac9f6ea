"""``clusterctl bench`` across two lab nodes of the docker driver: mpirun over real sshd, the ranks' hosts as proof."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def bench(docker_lab, run_clusterctl, tmp_path):
    """Run ``bench`` on the lab's nodes and return what it printed as JSON."""

    def run(*arguments, inventory=docker_lab.lab.inventory_path, code=0, timeout_s=1000):
        done = run_clusterctl(
            "bench", "-i", str(inventory), *arguments, "--json", timeout_s=timeout_s,
            env={"CLUSTERCTL_KNOWN_HOSTS": str(docker_lab.lab.known_hosts_path)},
        )  # fmt: skip
        assert done.returncode == code, f"{done.stderr}\n{done.stdout}"
        return json.loads(done.stdout)

    return run


def hosts(document):
    return {rank["rank"]: rank["host"] for rank in document["proof"]["ranks"]}


def core_is_installed():
    code = "import collective_core; collective_core.perf_binary('all_reduce_perf')"
    env = {key: value for key, value in os.environ.items() if key != "CCORE_LIBRARY"}
    return (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, env=env, check=False
        ).returncode
        == 0
    )


def test_all_reduce_across_two_nodes(bench, docker_lab):
    document = bench("--collective", "all_reduce", "-np", "2", "-e", "1M", "--timeout", "120")
    assert (document["status"], document["launcher"]) == ("ok", "openmpi")
    assert hosts(document) == {0: "node1", 1: "node2"}
    (only,) = document["variants"]
    assert only["rows"][-1]["size_bytes"] >= 512 << 10
    assert all(row["wrong"] == 0 for row in only["rows"])
    # CI installs the wheel, whose library is the one to be measured.
    expected = "ccore" if os.environ.get("CI") == "true" or core_is_installed() else "gloo"
    assert document["variants"][0]["library"] == expected
    for node in ("node1", "node2"):
        assert docker_lab.output(node, "ls -d /tmp/clusterctl-* 2>/dev/null || true") == ""


def test_resnet50_across_two_nodes(bench):
    document = bench(
        "--model", "resnet50", "--scaling", "1,2", "--batch-size", "2", "--image-size", "32", "-n", "1",
        "--windows", "2", "--timeout", "400",
    )  # fmt: skip
    assert document["status"] == "ok"
    assert hosts(document) == {0: "node1", 1: "node2"}
    one, two = document["variants"][0]["points"]
    assert [(point["np"], point["nodes"]) for point in (one, two)] == [(1, 1), (2, 2)]
    speeds = [point["samples_per_s"]["median"] for point in (one, two)]
    assert two["efficiency"] == pytest.approx(speeds[1] / speeds[0] / 2)
    assert two["efficiency_between_nodes"] == pytest.approx(two["efficiency"])
    assert document["proof"]["settings"]["parameters"] == 25_557_032


def test_a_node_without_torch_is_named_before_anything_starts(bench, docker_lab, tmp_path):
    text = docker_lab.lab.inventory_path.read_text()
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(text.replace(f"python: {sys.executable}", "python: /usr/bin/python3"))
    assert inventory.read_text() != text
    document = bench("--library", "gloo", "-np", "2", inventory=inventory, code=10)
    faults = document["proof"]["failures"]
    assert {fault["kind"] for fault in faults} == {"missing-program"}
    assert {fault["node"] for fault in faults} == {"node1", "node2"}


def test_a_rank_that_dies_on_the_other_node_is_named(docker_lab, clusterctl, tmp_path):
    environment = {
        **os.environ,
        "CLUSTERCTL_RUNS": str(tmp_path / "runs"),
        "CLUSTERCTL_KNOWN_HOSTS": str(docker_lab.lab.known_hosts_path),
    }
    process = subprocess.Popen(
        [str(clusterctl), "bench", "-i", str(docker_lab.lab.inventory_path), "--library", "gloo", "-np", "2",
         "-b", "1M", "-e", "1M", "-n", "100000", "--timeout", "200", "--json"],
        env=environment, cwd=tmp_path, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        # The rank on node2 is the only Python there that carries a launch's marker and Open MPI's rank.
        docker_lab.run(
            "node2",
            "for i in $(seq 300); do for e in /proc/[0-9]*/environ; do "
            "if tr '\\0' '\\n' <$e 2>/dev/null | grep -qx OMPI_COMM_WORLD_RANK=1; then "
            "sleep 3; kill -9 $(echo $e | cut -d/ -f3); exit 0; fi; done; sleep 0.2; done; exit 1",
        )
        out, err = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 10, err
    faults = {fault["kind"]: fault for fault in json.loads(out)["proof"]["failures"]}
    assert (faults["rank-died"]["rank"], faults["rank-died"]["node"]) == (1, "node2")
