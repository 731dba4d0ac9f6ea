"""``clusterctl locate`` and ``bench`` among guests without torch; one of them has a slow NIC, or a slow rail of two.

Part of ``make journey``: the boot, ``locate`` and ``bench`` take some minutes without KVM on two processors.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

import collective_core
from collective_core import LibraryNotFoundError, library_path, perf_binary

# Far below what an emulated guest moves, so that it is the NIC that is slow, whatever else runs here.
RATE_MBIT = 16
PACKAGES = "$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"


def installed() -> bytes:
    """Return collective_core's package with what pairs and all_reduce need, as a tar archive."""
    package = Path(collective_core.__file__).resolve().parent
    files = {f"collective_core/{path.name}": path for path in package.glob("*.py")}
    files["collective_core/lib/libcollective_core.so"] = library_path()
    files["collective_core/bin/all_reduce_perf"] = perf_binary("all_reduce_perf")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, path in files.items():
            archive.add(path, name)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def guests(three_guests, tier_unavailable):
    """Three guests with collective_core, and node2's NIC at a quarter of the others' rate."""
    try:
        package = installed()
    except LibraryNotFoundError as error:
        tier_unavailable(f"collective_core is not installed: {error}")

    def prepare(name: str) -> None:
        rate = RATE_MBIT // 4 if name == "node2" else RATE_MBIT
        command = (
            f"set -e; mkdir -p {PACKAGES}; tar -C {PACKAGES} --no-same-owner -xf -; "
            f"tc qdisc replace dev fabric0 root tbf rate {rate}mbit burst 8kb latency 200ms"
        )
        words = three_guests.lab.ssh_argv(name, command)
        done = subprocess.run(words, input=package, capture_output=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr.decode()

    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare, [node.name for node in three_guests.lab.nodes]))
    return three_guests.lab


@pytest.fixture
def run(guests, run_clusterctl):
    def on_guests(verb: str, *words: str, inventory: Path = guests.inventory_path):
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("CLUSTERCTL_", "CCORE_"))
        }
        return run_clusterctl(
            verb, str(inventory), "--library", "ccore", *words, "--json",
            env={**kept, "CLUSTERCTL_KNOWN_HOSTS": str(guests.known_hosts_path), "CLUSTERCTL_CONNECT_TIMEOUT_S": "60"},
            timeout_s=1000,
        )  # fmt: skip

    return on_guests


def test_the_slow_nic_is_named_without_torch(run):
    done = run("locate", "--bytes", "64K", "--timeout", "600")
    assert done.returncode == 1, f"{done.stderr}\n{done.stdout}"
    document = json.loads(done.stdout)
    named = [(one["nodes"], one["interface"]) for one in document["suspects"] if one["status"] == "named"]
    assert (document["status"], named) == ("named", [(["node2"], "fabric0")])


def test_bench_does_not_call_a_run_with_the_slow_nic_ok(run):
    done = run("bench", "-b", "64K", "-e", "64K", "-n", "2", "-w", "1")
    assert done.returncode == 1, f"{done.stderr}\n{done.stdout}"
    document = json.loads(done.stdout)
    assert document["status"] == "doubtful"
    assert [one["nodes"] for one in document["proof"]["slow"]] == [["node2"]]


@pytest.fixture
def rails(guests, three_guests):
    """Two rails with an RDMA device each; node2 has a quarter of the others' rate on the second one.

    The last test of these guests uses it, as the NICs keep no limit of their own.
    """
    for number, node in enumerate(guests.nodes, 1):
        # Else each interface also answers for the addresses of the others, whose devices drop what then comes.
        lines = ["set -e", "sysctl -qw net.ipv4.conf.all.arp_ignore=1", "tc qdisc delete dev fabric0 root"]
        for rail in range(2):
            rate = RATE_MBIT // 16 if (node.name, rail) == ("node2", 1) else RATE_MBIT // 4
            lines += [
                f"ip link add link fabric0 name rail{rail} type macvlan mode bridge",
                f"ip address add 10.{84 + rail}.0.{number}/24 dev rail{rail}",
                f"ip link set rail{rail} up",
                f"rdma link add rxe{rail + 1} type rxe netdev rail{rail}",
                f"tc qdisc replace dev rail{rail} root tbf rate {rate}mbit burst 8kb latency 4s",
            ]
        three_guests.run(node.name, "; ".join(lines))
    return three_guests


def test_rails_are_told_apart_over_rdma(run, rails, guests, tmp_path):
    """The ranks of a place send by the RDMA device of its interface: the slow one slows no other place.

    With three nodes, a second suspect leaves no control for the first, and a loaded machine can make one: so the
    verdict is not tested, but what it is made from.
    """
    document = yaml.safe_load(guests.inventory_path.read_text())
    document["defaults"] |= {"socket_ifname": "rail0,rail1", "env": {"CCORE_NET": "rdma"}}
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(yaml.safe_dump(document))
    done = run("locate", "--bytes", "64K", "--timeout", "900", inventory=inventory)
    assert done.returncode in {0, 1}, f"{done.stderr}\n{done.stdout}"
    found = json.loads(done.stdout)
    assert ["node2", "rail1"] in [[*one["nodes"], one["interface"]] for one in found["suspects"]]
    rates = {(rate["node"], rate["place"]): rate["gbps"] for rate in found["rates"]}
    slow = rates.pop(("node2", 1))
    assert len(rates) == 5 and min(rates.values()) > 2 * slow, (slow, rates)
    for node in guests.nodes:
        for device in ("rxe1", "rxe2"):
            counter = f"cat /sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts"
            assert int(rails.output(node.name, counter)) > 500, (node.name, device)
