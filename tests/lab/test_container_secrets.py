"""Secrets of a container's environment reach it, and stand in no command line, run file or word of ``up``."""

from __future__ import annotations

import json
import secrets

import node_image
import pytest
import yaml
from canaries import Watch, everything_below

from clusterctl import lab as labs
from clusterctl.images import engine
from clusterctl.lab import LabOptions, containers

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

IMAGE = f"clusterctl-secrets-test:{secrets.token_hex(4)}"
CANARIES = {"key": "canaryApiKey", "token": "canaryHfToken", "proxy": "canaryProxyLogin"}
ENV = {
    "REGISTRY_API_KEY": CANARIES["key"],
    "HF_TOKEN": CANARIES["token"],
    "https_proxy": f"http://me:{CANARIES['proxy']}@proxy:3128",
    "PLAIN": "not-a-secret",
}


@pytest.fixture
def lab(docker_engine, tmp_path):
    with engine.connect() as client:
        node_image.make(client, IMAGE)
        folder = tmp_path / "lab"
        try:
            yield labs.up(LabOptions(driver="docker", nodes=2, directory=folder, engines=True))
        finally:
            labs.down(folder)
            client.images.remove(IMAGE, force=True)


def test_only_the_container_has_them(lab, run_clusterctl, tmp_path):
    document = yaml.safe_load(lab.inventory_path.read_text())
    settings = {"image": IMAGE, "shm_size": "64m", "volumes": list(node_image.VOLUMES), "env": ENV}
    document["defaults"]["container"] |= settings
    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    said = {}
    with Watch(CANARIES, marker="docker") as watch:
        for words in (
            ("image", "distribute", "-i", str(path)),
            ("-vv", "up", str(path), "--json"),
            ("exec", "--", "sh", "-c", "echo ${#REGISTRY_API_KEY} ${#HF_TOKEN} ${#https_proxy} $PLAIN"),
        ):
            done = run_clusterctl(*words, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
            assert done.returncode == 0, done.stderr
            said[words[-1]] = done.stdout + done.stderr
        arrived = done.stdout
        # What the nodes keep beside their containers, while these run.
        with containers.engine() as client:
            for node in lab.nodes:
                box = client.containers.get(node.container_id)
                kept = box.exec_run(
                    ["sh", "-c", "cat /tmp/clusterctl-*/* /var/tmp/clusterctl-*/* 2>/dev/null"]
                )
                said[node.name] = kept.output.decode(errors="replace")
        files = everything_below(tmp_path / "runs")
        down = run_clusterctl("down")
        assert down.returncode == 0, down.stderr
    lengths = " ".join(str(len(ENV[name])) for name in ("REGISTRY_API_KEY", "HF_TOKEN", "https_proxy"))
    assert f"{lengths} not-a-secret" in arrived
    assert json.loads(next(text for name, text in files.items() if name.endswith("inventory.json")))
    assert watch.seen > 0
    assert watch.found == set()
    for name, canary in CANARIES.items():
        everywhere = {**said, **files, **everything_below(tmp_path / "runs")}
        assert [file for file, text in everywhere.items() if canary in text] == [], name
