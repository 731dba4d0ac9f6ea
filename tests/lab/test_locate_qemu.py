"""``clusterctl locate`` and ``bench`` among guests without torch; one of them has a slow NIC.

Part of ``make journey``: the boot, ``locate`` and ``bench`` take four minutes without KVM on two processors.
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
    def on_guests(verb: str, *words: str):
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("CLUSTERCTL_", "CCORE_"))
        }
        return run_clusterctl(
            verb, str(guests.inventory_path), "--library", "ccore", *words, "--json",
            env={**kept, "CLUSTERCTL_KNOWN_HOSTS": str(guests.known_hosts_path), "CLUSTERCTL_CONNECT_TIMEOUT_S": "60"},
            timeout_s=900,
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
