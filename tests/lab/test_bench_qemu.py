"""Benchmarks across two guests: a short one over Soft-RoCE, one whose RDMA packets stop, one that loses a guest."""

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
    yield written(qemu_lab, tmp_path_factory.mktemp("bench"), {})
    for node in qemu_lab.lab.nodes:
        qemu_lab.start(node.name)
        qemu_lab.run(node.name, f"rm -rf {FOLDER}")


def written(qemu_lab, folder, env):
    document = yaml.safe_load(qemu_lab.lab.inventory_path.read_text())
    document["defaults"] |= {
        "all_reduce_perf": f"{FOLDER}/bin/all_reduce_perf",
        "env": {"LD_LIBRARY_PATH": f"{FOLDER}/lib", **env},
    }
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def environment(qemu_lab, tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CLUSTERCTL_")}
    return {
        **kept,
        "CLUSTERCTL_KNOWN_HOSTS": str(qemu_lab.lab.known_hosts_path),
        "CLUSTERCTL_CONNECT_TIMEOUT_S": "60",
        "CLUSTERCTL_RUNS": str(tmp_path / "runs"),
    }


def packets_sent(qemu_lab):
    counter = "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"
    return {node.name: int(qemu_lab.output(node.name, counter)) for node in qemu_lab.lab.nodes}


@pytest.mark.usefixtures("inventory")
def test_all_reduce_across_two_guests_over_rdma(qemu_lab, run_clusterctl, tmp_path):
    inventory = written(qemu_lab, tmp_path, {"CCORE_NET": "rdma"})
    before = packets_sent(qemu_lab)
    done = run_clusterctl(
        "bench", "-i", str(inventory), "--collective", "all_reduce", "-np", "2",
        "-b", "8", "-e", "64K", "-f", "8", "-n", "3", "-w", "1", "--timeout", "300", "--json",
        env=environment(qemu_lab, tmp_path), timeout_s=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    document = json.loads(done.stdout)
    assert (document["status"], document["variants"][0]["library"], document["launcher"]) == (
        "ok",
        "ccore",
        "openmpi",
    )
    assert {rank["rank"]: rank["host"] for rank in document["proof"]["ranks"]} == {0: "node1", 1: "node2"}
    assert [row["size_bytes"] for row in document["variants"][0]["rows"]] == [8, 64, 512, 4096, 32768]
    assert all(row["wrong"] == 0 for row in document["variants"][0]["rows"])
    transports = document["proof"]["transports"]
    assert transports[0] == "0-1 rdma"
    assert [line.partition("GID ")[0] + line[line.index(" (") :] for line in transports[1:]] == [
        f"rdma by rank {rank} over rxe0 port 1,  (10.83.0.1{rank + 1}), 1 queue pair per peer"
        for rank in (0, 1)
    ]
    # The largest size alone sends 32768 bytes ten times, in packets of 1024 bytes.
    sent = {name: packets - before[name] for name, packets in packets_sent(qemu_lab).items()}
    assert min(sent.values()) > 300, sent


@pytest.mark.usefixtures("inventory")
def test_ranks_whose_rdma_packets_stop_are_named(qemu_lab):
    """Only RDMA is dropped: the ranks still reach each other over TCP, so that no other error can end the wait."""
    ranks = []
    for rank, node in enumerate(qemu_lab.lab.nodes):
        settings = (
            f"RANK={rank} WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 CCORE_NET=rdma CCORE_SOCKET_IFNAME=fabric0 "
            f"CCORE_ROOT_ADDR={qemu_lab.lab.nodes[0].fabric_address} CCORE_ROOT_PORT=29777 CCORE_JOB_SECRET=packets "
            f"LD_LIBRARY_PATH={FOLDER}/lib"
        )
        line = f"{settings} timeout 200 {FOLDER}/bin/all_reduce_perf -b 1K -e 1K -n 10000000"
        ranks.append(
            subprocess.Popen(
                qemu_lab.ssh_argv(node.name, line),
                stdin=subprocess.DEVNULL,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
    drop = "iptables -w {} INPUT -p udp --dport 4791 -j DROP"
    try:
        first = packets_sent(qemu_lab)["node1"]
        deadline = time.monotonic() + 120
        while packets_sent(qemu_lab)["node1"] < first + 200:
            assert time.monotonic() < deadline, "the ranks never started"
        qemu_lab.run("node2", drop.format("-I"))
        outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
        qemu_lab.run("node2", drop.format("-D"), check=False)
    assert [rank.returncode for rank in ranks] == [1, 1], outputs
    for output in outputs:
        assert "lost the RDMA connection to rank" in output, outputs
        assert "transport retry counter exceeded" in output, outputs
    # Nothing that the two processes had stays: one protection domain, queue and queue pair are the kernel's own.
    for node in qemu_lab.lab.nodes:
        assert "pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0" in qemu_lab.output(node.name, "rdma resource show")


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
