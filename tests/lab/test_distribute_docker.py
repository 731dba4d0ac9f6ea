"""An image on its way through the nodes when one of them dies: the others get it, and the next call ends the work."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time

import node_image
import pytest

from clusterctl import lab as labs
from clusterctl.images import engine
from clusterctl.lab import LabOptions, containers

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

IMAGE = f"clusterctl-distribute-test:{secrets.token_hex(4)}"
SIZE_BYTES = 12 << 20
# The whole archive would take 25 s: time to see a tenth of it and to pull the plug, whatever else the machine does.
SLOW = "tc qdisc replace dev eth0 root tbf rate 4mbit burst 64k latency 50ms"
FAST = "tc qdisc del dev eth0 root"
PART = "cat /var/tmp/clusterctl-images-0/*.part 2>/dev/null | wc -c"
LEFT = (
    "ls -d /var/tmp/clusterctl-* 2>/dev/null; grep restrict ~/.ssh/authorized_keys;"
    " ps -eo args= | grep '[r]eceive.sh'"
)
NODES = ("node1", "node2", "node3", "node4")


class Fleet:
    """Four nodes with engines of their own, and this machine's image."""

    def __init__(self, lab, clusterctl, cache):
        self.lab = lab
        self._argv = (str(clusterctl), "image", "distribute", IMAGE, "-i", str(lab.inventory_path), "--json")
        self._env = {**os.environ, "XDG_CACHE_HOME": str(cache)}

    def on(self, node, command):
        with containers.engine() as client:
            done = client.containers.get(self.lab.node(node).container_id).exec_run(["sh", "-c", command])
        return done.output.decode().strip()

    def begin(self):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self._argv, env=self._env, text=True, **pipes)

    def end(self, process, code):
        out, err = process.communicate(timeout=200)
        assert process.returncode == code, f"{out}\n{err}"
        document = json.loads(out)
        return document, {node["name"]: node for node in document["nodes"]}, err

    def wait_for_a_part(self, process, node):
        deadline = time.monotonic() + 100
        while not SIZE_BYTES // 10 < int(self.on(node, PART) or 0) < SIZE_BYTES:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, f"no part of the archive arrives at {node}"
            time.sleep(0.05)

    def start(self, node):
        labs.start(self.lab, node)
        with containers.engine() as client:
            containers.wait_engine(client, self.lab.node(node))

    def have_it(self):
        return [node for node in NODES if self.on(node, f"docker image inspect -f x {IMAGE}") == "x"]


@pytest.fixture
def fleet(docker_engine, clusterctl, tmp_path):
    with engine.connect() as client:
        node_image.make(client, IMAGE, {"random": os.urandom(SIZE_BYTES)})
        folder = tmp_path / "lab"
        try:
            lab = labs.up(LabOptions(driver="docker", nodes=len(NODES), directory=folder, engines=True))
            yield Fleet(lab, clusterctl, tmp_path / "cache")
        finally:
            labs.down(folder)
            client.images.remove(IMAGE, force=True)


def test_a_node_that_dies_on_the_way_costs_nobody_else_the_image(fleet, tmp_path):
    fleet.on("node1", SLOW)
    process = fleet.begin()
    fleet.wait_for_a_part(process, "node2")
    labs.kill(fleet.lab, "node2")
    fleet.on("node1", FAST)
    # 5: all that failed are out of reach.
    document, nodes, said = fleet.end(process, code=5)
    assert {name: node["status"] for name, node in nodes.items()} == {
        "node1": "received", "node2": "failed", "node3": "received", "node4": "received",
    }  # fmt: skip
    assert "failed: node2" in said and "node2" in nodes["node2"]["error"]
    assert document["controller_bytes"] == document["archive_bytes"]
    assert {nodes["node3"]["source"], nodes["node4"]["source"]} <= {"node1", "node3", "node4"}
    assert [fleet.on(node, LEFT) for node in ("node1", "node3", "node4")] == ["", "", ""]

    # It comes back with the part that it had: only the rest is sent, and what that run could not take away goes.
    fleet.start("node2")
    part = int(fleet.on("node2", PART))
    assert 0 < part < document["archive_bytes"]
    again, nodes, _ = fleet.end(fleet.begin(), code=0)
    assert {nodes[name]["status"] for name in ("node1", "node3", "node4")} == {"present"}
    assert nodes["node2"]["sent_bytes"] == again["controller_bytes"] == document["archive_bytes"] - part
    assert fleet.have_it() == list(NODES)
    assert [fleet.on(node, LEFT) for node in NODES] == [""] * 4

    # Now one that sends dies: who was being sent to gets the rest from another.
    for node in NODES[1:]:
        fleet.on(node, f"docker image rm {IMAGE}")
    fleet.on("node2", SLOW)
    process = fleet.begin()
    fleet.wait_for_a_part(process, "node3")
    labs.kill(fleet.lab, "node2")
    last, nodes, said = fleet.end(process, code=0)
    assert nodes["node2"]["status"] == "received"
    assert nodes["node3"]["source"] == "controller"
    assert (
        nodes["node3"]["sent_bytes"]
        < last["archive_bytes"]
        < last["controller_bytes"]
        < 2 * last["archive_bytes"]
    )
    assert nodes["node4"]["source"] == "node3"
    assert "node3 gets it from another sender" in said
    fleet.start("node2")
    _, nodes, _ = fleet.end(fleet.begin(), code=0)
    assert {node["status"] for node in nodes.values()} == {"present"}
    assert [fleet.on(node, LEFT) for node in NODES] == [""] * 4
    assert [path for path in (tmp_path / "cache").rglob("*") if not path.is_dir()] == []
