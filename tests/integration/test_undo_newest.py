"""A bare ``undo`` takes back the newest run of the fleet and nothing older, and every form of a report counts nodes."""

from __future__ import annotations

import json
import re

import pytest

from clusterctl.inventory.model import Node
from clusterctl.transport.connect import Connector

STATE = "/var/lib/clusterctl"
FILES = "/etc/sysconfig/rdma"


class Fleet:
    """Four nodes, each with a journal and files of its own in memory."""

    def __init__(self, farm, run_clusterctl, folder):
        self.farm, self._run, self.folder = farm, run_clusterctl, folder

    def on(self, name, line):
        node = self.farm.node(name)
        place = {"name": name, "address": node.address, "port": node.port}
        transport = Connector()(Node(**place, user="root", identity_file=str(self.farm.identity_file)))
        done = transport.run(("sh", "-c", line), timeout_s=60)
        transport.close()
        return done

    def files(self):
        """Return the files that the runs made, by node."""
        return {node.name: self.on(node.name, f"ls {FILES}").text.split() for node in self.farm.nodes}

    def clusterctl(self, *words):
        return self._run(*words, env=self.farm.env)

    def bootstrap(self, name, *words):
        """Want one file on each node; return the finished command and the run's id."""
        wanted = f"{{cluster_file: {{path: {FILES}/{name}, content: {json.dumps(name + chr(10))}}}}}"
        inventory = self.farm.inventory(self.folder, requirements=wanted)
        done = self.clusterctl("bootstrap", str(inventory), "--yes", "--only", "cluster-file", *words)
        found = re.findall(r"[0-9TZ]+-bootstrap-[0-9a-f]+", done.stdout)
        assert found, done.stderr
        return done, found[0]

    def undo(self, *words):
        return self.clusterctl("undo", str(self.folder / "inventory.yaml"), "--yes", *words)

    def listed(self, run):
        runs = json.loads(self.clusterctl("runs", "list", "--json").stdout)["runs"]
        return next(one for one in runs if one["run"] == run)


@pytest.fixture
def fleet(sshd_farm, run_clusterctl, tmp_path, monkeypatch):
    farm = sshd_farm(4, private=(STATE, FILES))
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    return Fleet(farm, run_clusterctl, tmp_path)


def _everywhere(*names):
    return {f"node0{number}": list(names) for number in range(1, 5)}


def test_a_node_whose_disk_was_full_keeps_its_older_run_until_that_run_is_undone(fleet):
    done, first = fleet.bootstrap("first")
    assert (done.returncode, fleet.files()) == (0, _everywhere("first")), done.stderr
    full = fleet.on("node02", f"mount -o remount,size=64k {STATE}; cat /dev/zero >{STATE}/filler; df {STATE}")
    assert "100%" in full.text
    done, second = fleet.bootstrap("second")

    # Screen, exit code, JSON, list and page of the run agree.
    assert done.returncode == 1
    assert "changed: 3, failed: 1 node (node02), not done: 1, planned: 0, unreachable: 0" in done.stdout
    report = json.loads((fleet.folder / "runs" / second / "report.json").read_text())
    assert report["summary"] == {"changed": 3, "failed": 1, "not_done": 1, "planned": 0, "unreachable": 0}
    assert [node["status"] for node in report["nodes"]] == ["ok", "failed", "ok", "ok"]
    one = fleet.listed(second)
    assert one["outcome"] == "unfinished"
    assert one["detail"] == "3 changed, 1 node failed (node02), 1 not done, 1 unmet"
    shown = fleet.clusterctl("runs", "show", second).stdout
    assert "1 node failed (node02)" in shown and "No space left on device" in shown
    fleet.on("node02", f"rm {STATE}/filler; mount -o remount,size=8m {STATE}")

    done = fleet.undo()
    assert done.returncode == 0, done.stderr
    assert f"node[01,03-04] (3 nodes): undo run {second}" in done.stdout
    assert f"node02: nothing to undo: run {second} changed nothing on this node" in done.stdout
    command = f"--run {first} --limit node02"
    assert f"the latest run there is {first}; to undo it: clusterctl undo " in done.stdout
    assert command in done.stdout
    assert fleet.files() == _everywhere("first")

    done = fleet.undo("--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["run"] == first
    assert [(node["run"], node["older"]) for node in document["nodes"]] == [(first, None)] * 4
    assert fleet.files() == _everywhere()

    done = fleet.undo("--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["run"]) == (0, None)
    assert {node["nothing"] for node in document["nodes"]} == {"nothing to undo"}


def test_a_run_that_could_not_be_undone_on_one_node_is_finished_before_an_older_one(fleet):
    fleet.bootstrap("first")
    _, second = fleet.bootstrap("second")
    fleet.on("node03", f"mount -o remount,ro {STATE}")
    done = fleet.undo("--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["run"], document["summary"]["failed"]) == (1, second, 1)
    assert document["nodes"][2]["status"] == "failed" and document["nodes"][2]["reachable"]
    (undo,) = (fleet.folder / "runs").glob("*-undo-*")
    one = fleet.listed(undo.name)
    assert (one["outcome"], one["detail"]) == ("failed", "3 changed, 1 node failed (node03), 1 not done")
    fleet.on("node03", f"mount -o remount,rw {STATE}")
    done = fleet.undo()
    assert done.returncode == 0, done.stderr
    assert f"node03: undo run {second}" in done.stdout
    assert f"run {second} has already been undone" in done.stdout
    assert fleet.files() == _everywhere("first")


def test_each_takes_back_the_latest_run_of_every_node(fleet):
    _, first = fleet.bootstrap("first")
    _, second = fleet.bootstrap("second", "--limit", "node[01-03]")
    fleet.farm.node("node01").stop()
    done = fleet.undo("--dry-run", "--limit", "node[01-02,04]")
    assert "Next: clusterctl undo " in done.stderr and "--dry-run" not in done.stderr
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert f"{second} is the newest run of the nodes that were read; not read: " in said
    assert "not read: node01, node03 (left out by --limit)" in said
    assert "failed: 0, planned: 1, unreachable: 1 node (node01)" in done.stdout
    done = fleet.undo("--each", "--json", "--limit", "node[02-04]")
    document = json.loads(done.stdout)
    assert [node["run"] for node in document["nodes"]] == [second, second, first]
    assert (done.returncode, document["run"]) == (0, None)
    assert fleet.undo("--each", "--run", first).returncode == 2
