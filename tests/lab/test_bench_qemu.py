"""``clusterctl bench`` across two guests: a short all_reduce, and one that loses a guest on the way."""

import json
import os
import subprocess
import time

import pytest
import yaml

from clusterctl import lab as labs
from collective_core import LibraryNotFoundError, library_path, perf_binary

FOLDER = "/opt/collective-core"


@pytest.fixture(scope="module")
def inventory(qemu_lab, tier_unavailable, tmp_path_factory):
    """The lab's inventory with collective_core's program, which is copied to the guests and removed after."""
    try:
        files = {
            "lib/libcollective_core.so": library_path(),
            "bin/all_reduce_perf": perf_binary("all_reduce_perf"),
        }
    except LibraryNotFoundError as error:
        tier_unavailable(f"collective_core is not installed: {error}")
    for node in qemu_lab.lab.nodes:
        for name, source in files.items():
            path = f"{FOLDER}/{name}"
            command = f"mkdir -p $(dirname {path}) && cat > {path} && chmod 755 {path}"
            done = subprocess.run(
                qemu_lab.ssh_argv(node.name, command), input=source.read_bytes(), timeout=300, check=False
            )
            assert done.returncode == 0
    document = yaml.safe_load(qemu_lab.lab.inventory_path.read_text())
    document["defaults"] |= {
        "all_reduce_perf": f"{FOLDER}/bin/all_reduce_perf",
        "env": {"LD_LIBRARY_PATH": f"{FOLDER}/lib"},
    }
    path = tmp_path_factory.mktemp("bench") / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    yield path
    for node in qemu_lab.lab.nodes:
        qemu_lab.start(node.name)
        qemu_lab.run(node.name, f"rm -rf {FOLDER}")


def environment(qemu_lab, tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CLUSTERCTL_")}
    return {
        **kept,
        "CLUSTERCTL_KNOWN_HOSTS": str(qemu_lab.lab.known_hosts_path),
        "CLUSTERCTL_CONNECT_TIMEOUT_S": "60",
        "CLUSTERCTL_RUNS": str(tmp_path / "runs"),
    }


def test_all_reduce_across_two_guests(qemu_lab, inventory, run_clusterctl, tmp_path):
    done = run_clusterctl(
        "bench", "-i", str(inventory), "--collective", "all_reduce", "-np", "2",
        "-b", "8", "-e", "64K", "-f", "8", "-n", "3", "-w", "1", "--timeout", "300", "--json",
        env=environment(qemu_lab, tmp_path), timeout_s=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    document = json.loads(done.stdout)
    assert (document["status"], document["library"], document["launcher"]) == ("ok", "ccore", "openmpi")
    assert {rank["rank"]: rank["host"] for rank in document["proof"]["ranks"]} == {0: "node1", 1: "node2"}
    assert [row["size_bytes"] for row in document["variants"][0]["rows"]] == [8, 64, 512, 4096, 32768]
    assert all(row["wrong"] == 0 for row in document["variants"][0]["rows"])
    assert "tcp" in " ".join(document["proof"]["transports"]).lower()


def test_a_guest_that_loses_its_power_is_named_and_boots_again_with_its_disk(
    qemu_lab, inventory, clusterctl, tmp_path
):
    """One power cut for the launch and for the lab: without KVM, a boot takes more than a minute."""
    qemu_lab.run("node2", "echo kept > /root/kept && sync")
    before = qemu_lab.lab.node("node2").pid
    process = subprocess.Popen(
        [str(clusterctl), "bench", "-i", str(inventory), "-np", "2", "-b", "64K", "-e", "64K", "-n", "10000000",
         "--timeout", "400", "--json"],
        env=environment(qemu_lab, tmp_path), cwd=tmp_path, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not any("Rank  1" in log.read_text() for log in (tmp_path / "runs").glob("*/logs/rank-0.log")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the ranks never started"
            time.sleep(0.5)
        killed = time.monotonic()
        qemu_lab.kill("node2")
        out, err = process.communicate(timeout=600)
        took_s = time.monotonic() - killed
        state = {entry.node.name: entry for entry in labs.status(qemu_lab.lab.directory).nodes}
        unreachable = qemu_lab.run("node2", "true", check=False).returncode
    finally:
        process.kill()
        qemu_lab.start("node2")
    assert process.returncode == 10, f"{err}\n{out}"
    faults = {fault["kind"]: fault for fault in json.loads(out)["proof"]["failures"]}
    assert faults["node-lost"]["node"] == "node2"
    # Noticed by itself, not by waiting for the deadline.
    assert took_s < 240
    assert qemu_lab.output("node1", "ls -d /tmp/clusterctl-* 2>/dev/null || true") == ""
    assert (state["node1"].ssh, state["node2"].running, state["node2"].ssh) == (True, False, False)
    assert unreachable == 255
    assert qemu_lab.lab.node("node2").pid != before
    assert qemu_lab.output("node2", "cat /root/kept; rm /root/kept") == "kept"
    assert "Soft-RoCE" in qemu_lab.output("node2", "systemctl show -p Description clusterctl-lab-rxe")
    assert qemu_lab.output("node1", "ssh -o BatchMode=yes node2 hostname") == "node2"
