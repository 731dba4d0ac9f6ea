"""``clusterctl accept`` on two lab nodes of the docker driver, one of them slow: cut off, resumed, judged, named."""

import json
import os
import shlex
import signal
import subprocess
import time

import pytest
import small_arrays

ROWS = "cpu-verify,cpu-memory,disk,preflight,drift,requirements"
PLACE = "/usr/local/bin/stress-ng"
# Computes and verifies as the real one, and reports a hundredth of the memory's rate. A CPU quota would not do: on a
# machine with other work, the other node gets no more CPU time than the quota allows.
SLOW_MEMORY = f"""\
#!/bin/sh
/usr/bin/stress-ng {small_arrays.OPTIONS} "$@"
status=$?
if [ -e metrics.yaml ]; then
  awk '/ memory-(read|write)-rate-/ {{ sub($2, $2 / 100) }} {{ print }}' metrics.yaml >slowed && mv slowed metrics.yaml
fi
exit "$status"
"""


@pytest.fixture
def slow_node(docker_lab):
    """Let node2 have a slow memory, by the tool that measures it."""
    for node, text in (("node1", small_arrays.script()), ("node2", SLOW_MEMORY)):
        docker_lab.run(node, f"printf %s {shlex.quote(text)} >{PLACE} && chmod 755 {PLACE}")
    try:
        yield "node2"
    finally:
        for node in ("node1", "node2"):
            docker_lab.run(node, f"rm {PLACE}")


def environment(docker_lab, tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CLUSTERCTL_")}
    return {
        **kept,
        "CLUSTERCTL_KNOWN_HOSTS": str(docker_lab.lab.known_hosts_path),
        "CLUSTERCTL_RUNS": str(tmp_path / "runs"),
    }


def test_a_run_that_was_cut_off_is_resumed_and_names_the_slow_node(
    docker_lab, slow_node, clusterctl, run_clusterctl, tmp_path
):
    inventory = str(docker_lab.lab.inventory_path)
    process = subprocess.Popen(
        [str(clusterctl), "accept", inventory, "--only", ROWS, "--json"],
        env=environment(docker_lab, tmp_path), cwd=tmp_path, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    # The log of a row is written when the row has ended.
    while not list((tmp_path / "runs").glob("*/logs/cpu-verify/*.log")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, f"{err}\n{out}"
    (log,) = list((tmp_path / "runs").glob("*/logs/cpu-verify/*.log"))[:1]
    written = log.stat().st_mtime_ns
    for node in ("node1", "node2"):
        assert (
            docker_lab.output(node, "ls -d /tmp/clusterctl-* /var/tmp/clusterctl-* 2>/dev/null || true") == ""
        )

    done = run_clusterctl(
        "accept", "--resume", "latest", "--json", env=environment(docker_lab, tmp_path), timeout_s=900
    )
    document = json.loads(done.stdout)
    rows = {(node["name"], row["row"]): row for node in document["nodes"] for row in node["rows"]}
    assert log.stat().st_mtime_ns == written
    bad = {key: row for key, row in rows.items() if row["status"] not in ("ok", "warn", "measured")}
    assert not bad, f"{bad}\n{done.stderr}"
    for node in ("node1", "node2"):
        assert (rows[node, "cpu-verify"]["status"], rows[node, "preflight"]["status"]) == ("ok", "ok")
        assert {value["field"] for value in rows[node, "disk"]["values"]} == {
            "write_mb_per_s", "read_mb_per_s", "randread_iops",
        }  # fmt: skip
        memory = {value["field"] for value in rows[node, "cpu-memory"]["values"]}
        assert memory == {"read_mb_per_s", "write_mb_per_s"}
    slow, other = rows["node2", "cpu-memory"], rows["node1", "cpu-memory"]
    assert (slow["status"], other["status"]) == ("warn", "ok"), (slow, other)
    assert "read_mb_per_s" in slow["reason"]
    for node in ("node1", "node2"):
        assert (
            docker_lab.output(node, "ls -d /tmp/clusterctl-* /var/tmp/clusterctl-* 2>/dev/null || true") == ""
        )
