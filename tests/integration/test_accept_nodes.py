"""``clusterctl accept`` on real sshd nodes with real tools: cut off, resumed, and a slowed node is named."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import slowed_cpu
import small_arrays
from sshd_farm import children_of, wait_for_listeners

# All nodes share the CPUs of this machine, so that healthy ones differ by more than real ones do.
SITE = """\
rules:
  - when: cpu-memory.read_mb_per_s < 0.01
    verdict: fail
    source: a test
comparisons:
  - fields: ["cpu-memory.*"]
    warn: 0.4
    fail: 0.9
    spread: 0.1
    source: a test
"""


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    return path


@pytest.fixture
def farm_of_three(sshd_farm, tmp_path, tier_unavailable):
    """Nodes whose stress-ng measures small arrays."""
    if reason := slowed_cpu.missing():
        tier_unavailable(reason)
    if (stress_ng := shutil.which("stress-ng")) is None:
        tier_unavailable("stress-ng is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "stress-ng").write_text(small_arrays.script(stress_ng))
    (tools / "stress-ng").chmod(0o755)
    farm = sshd_farm(3)
    for node in farm.nodes:
        node.stop()
        # The first SetEnv counts, and the command line comes before the file.
        node.command += ("-o", f"SetEnv SHLVL=1 PATH={tools}:/usr/sbin:/usr/bin:/sbin:/bin")
        node.start()
    wait_for_listeners(farm.nodes)
    return farm


def test_a_cut_run_goes_on_and_the_slowed_node_is_named(
    farm_of_three, clusterctl, run_clusterctl, tmp_path, site
):
    inventory = str(farm_of_three.inventory(tmp_path))
    runs = tmp_path / "runs"
    nodes = farm_of_three.nodes
    slow = nodes[2]
    arguments = (
        "accept",
        inventory,
        "--only",
        "kernel-log,cpu-memory",
        "--thresholds",
        str(site),
    )
    with slowed_cpu.slowed(slow.process.pid, 0.1):
        first = subprocess.Popen(
            [str(clusterctl), *arguments],
            env={**os.environ, "CLUSTERCTL_RUNS": str(runs), **farm_of_three.env},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + 120
        # Each node has finished its first row, and stress-ng runs on all of them.
        while sum(_outcomes(runs).values()) < len(nodes) and time.monotonic() < deadline:
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=60)
        assert first.returncode == 130
        assert "To continue: clusterctl accept --resume" in said
        assert not [pid for node in nodes for pid in children_of(node.process.pid) if _runs_stress(pid)]
        (run,) = [path.name for path in runs.iterdir() if path.is_dir()]
        kept = (runs / run / "outcomes.jsonl").read_text()
        done = run_clusterctl(
            "accept", "--resume", run, "--json", "--hostfile", str(tmp_path / "hosts"), env=farm_of_three.env
        )
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    rows = {node["name"]: {row["row"]: row for row in node["rows"]} for node in document["nodes"]}
    assert (runs / run / "outcomes.jsonl").read_text().startswith(kept)
    statuses = {name: found["cpu-memory"]["status"] for name, found in rows.items()}
    assert statuses.pop("node03") in ("warn", "fail")
    assert set(statuses.values()) == {"ok"}, done.stdout
    named = rows["node03"]["cpu-memory"]
    assert "below" in named["reason"]
    assert all(value["again"] is not None for value in named["values"]), named
    # What goes on is judged by the thresholds with which it began.
    sources = {value["source"] for row in rows.values() for value in row["cpu-memory"]["values"]}
    assert sources and all(source.endswith("a test") for source in sources), sources
    assert named["tool"].startswith("stress-ng") and (runs / run / named["log"]).read_text().startswith(
        "$ sh -c"
    )
    listed = run_clusterctl("runs", "show", run, env=farm_of_three.env)
    assert "nodes accepted" in listed.stdout


def test_a_lost_connection_fails_the_row_and_leaves_nothing_running(
    small_farm, clusterctl, tmp_path, tier_unavailable
):
    if shutil.which("stress-ng") is None:
        tier_unavailable("stress-ng is not installed")
    node = small_farm.nodes[0]
    arguments = ("accept", str(small_farm.inventory(tmp_path)), "--limit", "node01", "--only", "cpu-verify")
    started = subprocess.Popen(
        [str(clusterctl), *arguments, "--json"],
        env={**os.environ, "CLUSTERCTL_RUNS": str(tmp_path / "runs"), **small_farm.env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (running := [pid for pid in children_of(node.process.pid) if _runs_stress(pid)]):
        assert started.poll() is None and time.monotonic() < deadline, started.communicate()
        time.sleep(0.05)
    node.drop_connections()
    said, _ = started.communicate(timeout=120)
    (row,) = json.loads(said)["nodes"][0]["rows"]
    assert (row["status"], row["reason"]) == ("fail", "the connection was lost during this row")
    assert not [pid for pid in running if _runs_stress(pid)]


def _outcomes(runs):
    return {path: path.read_text().count("\n") for path in runs.glob("*-accept-*/outcomes.jsonl")}


def _runs_stress(pid):
    try:
        # Not the question for its version.
        return "stress-ng\0--" in (line := Path(f"/proc/{pid}/cmdline").read_text()) and "--timeout" in line
    except OSError:
        return False


def test_a_missing_tool_is_not_run_and_a_node_that_is_down_is_named(small_farm, run_clusterctl, tmp_path):
    # A launch could not use this selector, and node-local rows need none.
    inventory = str(small_farm.inventory(tmp_path, socket_ifname="^docker0"))
    small_farm.nodes[1].stop()
    try:
        done = run_clusterctl(
            "accept",
            inventory,
            "--only",
            "hpl,kernel-log",
            "--junit",
            str(tmp_path / "a.xml"),
            env=small_farm.env,
        )
    finally:
        small_farm.nodes[1].start()
    assert done.returncode == 1, done.stderr
    assert "node02: refused" in done.stdout
    assert "not measured  node[01,03-04] (3): hpl: xhpl not found: install HPL" in done.stdout
    assert "accepted: 0 of 4 nodes: none" in done.stdout
    assert "--skip hpl" in done.stdout
    assert "note: 1 row (hpl) cannot run on node[01,03-04]: xhpl not found: install HPL" in done.stderr
    assert "Ran 1 of 2 rows on 3 nodes" in done.stderr


def test_one_tcp_stream_is_measured_beside_many(small_farm, run_clusterctl, tmp_path, tier_unavailable):
    if shutil.which("iperf3") is None:
        tier_unavailable("iperf3 is not installed")
    inventory = str(small_farm.inventory(tmp_path))
    site = tmp_path / "site.yaml"
    site.write_text("rules: [{when: tcp-streams.many_streams_gbit_per_s < 0.01, verdict: fail}]\n")
    # All nodes share the ports of this machine, so that one pair can measure at a time.
    done = run_clusterctl(
        "accept", inventory, "--limit", "node[01-02]", "--only", "tcp-streams", "--thresholds", str(site),
        "--json", env=small_farm.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for node in json.loads(done.stdout)["nodes"]:
        (row,) = node["rows"]
        values = {value["field"]: value["value"] for value in row["values"]}
        assert row["tool"].startswith("iperf 3") and all(
            value["hardware"] == "TCP" for value in row["values"]
        )
        one, many = values["one_stream_gbit_per_s"], values["many_streams_gbit_per_s"]
        assert one > 0 and values["one_stream_share"] == pytest.approx(one / many, rel=0.01)
    alone = run_clusterctl(
        "accept", inventory, "--limit", "node01", "--only", "tcp-streams", env=small_farm.env
    )
    assert "not applicable here: tcp-streams" in alone.stdout


def test_the_health_check_of_slurm_passes_or_drains(run_clusterctl, clusterctl, tmp_path):
    script = run_clusterctl("render", "slurm-healthcheck", "--only", "kernel-log").stdout
    failing = run_clusterctl("render", "slurm-healthcheck", "--only", "hpl").stdout
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "clusterctl").symlink_to(clusterctl)
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/drained\n')
    (tools / "scontrol").chmod(0o755)
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}", "CLUSTERCTL_RUNS": str(tmp_path / "runs"),
        "SLURMD_NODENAME": "gpu07", "HOME": str(tmp_path),
    }  # fmt: skip

    def run(text, **more):
        return subprocess.run(
            ("sh",),
            input=text,
            text=True,
            env={**environment, **more},
            capture_output=True,
            timeout=120,
            check=False,
        )

    assert run(script).returncode in (0, 1)
    passed_or_not = run(failing)
    assert passed_or_not.returncode == 1, passed_or_not
    assert (
        "NodeName=gpu07 State=DRAIN Reason=clusterctl: not measured localhost: hpl"
        in (tmp_path / "drained").read_text()
    )
    (tmp_path / "drained").unlink()
    # As a prolog, the exit status drains the node.
    assert run(failing, SLURM_JOB_ID="7").returncode == 1
    assert not (tmp_path / "drained").exists()
