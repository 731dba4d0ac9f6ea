"""Ranks on two guests: a benchmark and training over Soft-RoCE, RDMA that stops, and a guest that loses its power."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from clusterctl import lab as labs
from collective_core import LibraryNotFoundError, perf_binary

TORCH_DDP = Path(__file__).parents[1] / "core" / "programs" / "torch_ddp.py"


@pytest.fixture(scope="module")
def perf(tier_unavailable):
    """The path of all_reduce_perf here and on the guests, which see the environment that it is installed in."""
    try:
        return perf_binary("all_reduce_perf")
    except LibraryNotFoundError as error:
        tier_unavailable(f"collective_core is not installed: {error}")


def written(qemu_lab, folder, perf, **env):
    """Write the lab's inventory with collective_core's program, and return its path."""
    document = yaml.safe_load(qemu_lab.lab.inventory_path.read_text())
    document["defaults"] |= {"all_reduce_perf": str(perf), "env": env}
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


def packets_sent(qemu_lab, device="rxe0"):
    counter = f"cat /sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts"
    return {node.name: int(qemu_lab.output(node.name, counter)) for node in qemu_lab.lab.nodes}


def test_all_reduce_across_two_guests_over_rdma(qemu_lab, perf, run_clusterctl, tmp_path):
    inventory = written(qemu_lab, tmp_path, perf, CCORE_NET="rdma")
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


def ranks_over_rdma(qemu_lab, line, program=Path(os.devnull)):
    """Start a rank per guest, which reads ``program`` as its standard input."""
    root = qemu_lab.lab.nodes[0].fabric_address
    settings = (
        f"WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 OMP_NUM_THREADS=1 CCORE_NET=rdma CCORE_SOCKET_IFNAME=fabric0 "
        f"MASTER_ADDR={root} MASTER_PORT=29778 CCORE_ROOT_ADDR={root} CCORE_ROOT_PORT=29777 CCORE_JOB_SECRET=packets"
    )
    ranks = []
    for rank, node in enumerate(qemu_lab.lab.nodes):
        with program.open("rb") as given:
            argv = qemu_lab.ssh_argv(node.name, f"export RANK={rank} {settings}; exec {line}")
            ranks.append(
                subprocess.Popen(
                    argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            )
    return ranks


@pytest.mark.parametrize(
    ("stop", "go_on", "why"),
    [
        # Only RDMA is dropped: the ranks still reach each other over TCP, so that no other error can end the wait.
        ("iptables -w -I INPUT {}", "iptables -w -D INPUT {}", "transport retry counter exceeded"),
        ("ip link set fabric0 down", "ip link set fabric0 up", "port error of rxe0|retry counter exceeded"),
    ],
    ids=["packets", "link"],
)
def test_ranks_whose_rdma_stops_are_named(qemu_lab, perf, stop, go_on, why):
    """The packets to a guest are dropped, or its link is taken down, while an all-reduce is under way."""
    rdma = "-p udp --dport 4791 -j DROP"
    ranks = ranks_over_rdma(qemu_lab, f"timeout 200 {perf} -b 1K -e 1K -n 10000000")
    try:
        first = packets_sent(qemu_lab)["node1"]
        deadline = time.monotonic() + 120
        while packets_sent(qemu_lab)["node1"] < first + 200:
            assert time.monotonic() < deadline, "the ranks never started"
        qemu_lab.run("node2", stop.format(rdma))
        outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
        qemu_lab.run("node2", go_on.format(rdma), check=False)
    assert [rank.returncode for rank in ranks] == [1, 1], outputs
    named = re.compile(rf"lost the RDMA connection to rank .*(?:{why})")
    assert all(named.search(output) for output in outputs), outputs
    # Nothing that the two processes had stays: one protection domain, queue and queue pair are the kernel's own.
    for node in qemu_lab.lab.nodes:
        assert "pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0" in qemu_lab.output(node.name, "rdma resource show")
    qemu_lab.run("node2", f"ping -q -c 1 -w 60 {qemu_lab.lab.nodes[0].fabric_address}")


@pytest.fixture
def second_rail(qemu_lab):
    """On each guest, ``rxe1`` of a macvlan ``rail1`` above the interface of ``rxe0``."""
    try:
        for number, node in enumerate(qemu_lab.lab.nodes, 1):
            qemu_lab.run(
                node.name,
                # Else each interface also answers for the addresses of the other, whose device drops what then comes.
                "sysctl -qw net.ipv4.conf.all.arp_ignore=1 && "
                "ip link add link fabric0 name rail1 type macvlan mode bridge && "
                f"ip address add 10.84.0.{number}/24 dev rail1 && ip link set rail1 up && "
                "rdma link add rxe1 type rxe netdev rail1",
            )
        yield
    finally:
        for node in qemu_lab.lab.nodes:
            qemu_lab.run(
                node.name,
                "rdma link delete rxe1; ip link delete rail1; sysctl -qw net.ipv4.conf.all.arp_ignore=0",
                check=False,
            )


@pytest.mark.parametrize(
    ("settings", "ports", "used"),
    [
        (
            "CCORE_RDMA_DEVICE=rxe0,rxe1",
            r"rxe0 port 1, GID \d+ \(10\.83\.0\.1\d\) and rxe1 port 1, GID \d+ \(10\.84\.0\.\d\), 2 queue pairs",
            ("rxe0", "rxe1"),
        ),
        # The tables of both devices have the address.
        (
            "CCORE_SOCKET_IFNAME=rail1 CCORE_ROOT_ADDR=10.84.0.1",
            r"rxe1 port 1, GID \d+ \(10\.84\.0\.\d\), 1 queue pair",
            ("rxe1",),
        ),
    ],
    ids=["both", "macvlan"],
)
def test_the_rails_that_ranks_use(qemu_lab, perf, second_rail, settings, ports, used):
    devices = ("rxe0", "rxe1")
    before = {device: packets_sent(qemu_lab, device) for device in devices}
    if len(used) == 1:
        lists = qemu_lab.output("node1", "cat /sys/class/infiniband/rxe[01]/ports/1/gids/*")
        assert lists.count("ffff:0a54:0001") >= 2, lists
    ranks = ranks_over_rdma(qemu_lab, f"env {settings} timeout 200 {perf} -b 64K -e 64K -n 20")
    try:
        outputs = [rank.communicate(timeout=250)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    for rank in (0, 1):
        assert re.search(rf"rdma by rank {rank} over {ports} per peer", outputs[0]), outputs[0]
    for device in devices:
        for node, packets in packets_sent(qemu_lab, device).items():
            sent = packets - before[device][node]
            # 64 KiB 20 times and more, in packets of 1024 bytes; over both rails half of it each.
            assert sent > 500 if device in used else sent == 0, (device, node, sent)


# torch.compile's modules are half of what DDP imports: a minute of a guest without KVM.
EAGER = """
import sys

class Absent:
    def __getattr__(self, name):
        return self
    def __call__(self, *_, **__):
        return self

compiler = sys.modules["torch._dynamo"] = Absent()
compiler.disable = lambda function, *_, **__: function
exec(sys.stdin.read())
"""


def test_a_model_is_trained_under_ddp_over_rdma(qemu_lab, tier_unavailable):
    """Both ranks end with the parameters that one process gets from all of the data."""
    python = Path(sys.executable)
    if not any(python.resolve().is_relative_to(mount.source) for mount in qemu_lab.lab.mounts):
        tier_unavailable(f"guests cannot mount {python.resolve()}, which is among the system's own programs")
    alone = subprocess.run(
        (python, TORCH_DDP, "alone"), capture_output=True, text=True, timeout=300, check=True
    )
    before = packets_sent(qemu_lab)
    ranks = ranks_over_rdma(qemu_lab, f"timeout 600 {python} -c {shlex.quote(EAGER)} ccore", TORCH_DDP)
    try:
        outputs = [rank.communicate(timeout=700)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    for output in outputs:
        for found, wanted in zip(json.loads(output), json.loads(alone.stdout), strict=True):
            assert found == pytest.approx(wanted, abs=1e-12)
    # Parameters at DDP's start and the gradients of five steps, in packets of 1024 bytes.
    sent = {name: packets - before[name] for name, packets in packets_sent(qemu_lab).items()}
    assert min(sent.values()) > 100, sent


def test_a_guest_that_loses_its_power_is_named_and_boots_again_with_its_disk(
    qemu_lab, perf, clusterctl, tmp_path
):
    """One power cut for the launch and for the lab: without KVM, a boot takes more than a minute."""
    inventory = written(qemu_lab, tmp_path, perf)
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
