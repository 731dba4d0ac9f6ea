"""A launch whose log holds a known cause: each command that launches prints it and keeps it in its document."""

import json
import os
import shutil
import sys

import pytest
from free_ports import free_port


@pytest.fixture
def inventory(sshd_farm, tmp_path, tier_unavailable):
    """Two nodes whose mpirun starts its daemons on a node whose name does not resolve."""
    if (real := shutil.which("mpirun")) is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    path = tmp_path / "mpirun"
    path.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || exec {real} --version\n'
        "exec ssh -F none -o BatchMode=yes no-such-node.invalid orted\n"
    )
    path.chmod(0o755)
    farm = sshd_farm(2)
    written = farm.inventory(tmp_path, socket_ifname="lo", slots=1, mpirun=path, python=sys.executable)
    return str(written), farm.env


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("bench", "--library", "ccore", "-b", "8", "-e", "8"), 10),
        (("bench", "--library", "ccore", "--preflight"), 10),
        (("accept", "--only", "preflight"), 1),
    ],
    ids=["bench", "preflight", "accept"],
)
def test_the_cause_is_printed_and_kept(run_clusterctl, inventory, tmp_path, words, code):
    path, env = inventory
    verb, *options = words
    done = run_clusterctl(verb, path, *options, "--json", env=env)
    assert done.returncode == code, done.stderr
    assert "\ncause: ssh-resolve on no-such-node.invalid: " in f"\n{done.stderr}"
    cause = json.loads(done.stdout)["cause"]
    assert cause["id"] == "ssh-resolve"
    assert "Could not resolve hostname no-such-node.invalid" in cause["log"]["text"]
    (run,) = (tmp_path / "runs").glob("2*")
    log = (run / cause["log"]["file"]).read_text().splitlines()
    assert cause["log"]["text"] in log[cause["log"]["line"] - 1]
    stage = "preflight" if "--preflight" in words else "results"
    assert json.loads((run / f"{stage}.json").read_text())["cause"] == cause


DOCKER = """#!/bin/sh
case "$1 $2" in
  "info --format") printf '{"ServerVersion": "28.2.2", "Architecture": "x86_64"}' ;;
  "image inspect") printf '[{"Id": "sha256:1", "Architecture": "amd64"}]' ;;
  "create "*) echo c1 ;;
  "cp "*) cat >/dev/null ;;
  "start "*) echo 'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]' >&2
    exit 1 ;;
esac
"""


def test_up_names_the_cause_in_what_the_engine_printed(run_clusterctl, tmp_path):
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "inventory.yaml").write_text(
        "version: 1\nnodes: [{name: here, address: 127.0.0.1, connection: local}]\n"
    )
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run_clusterctl(
        "up", "inventory.yaml", "--image", "i:1", "--port", str(free_port()), "--json", env=env
    )
    assert done.returncode == 10, done.stderr
    assert "\ncause: docker-no-gpu-driver on here: " in done.stderr
    assert json.loads(done.stdout)["cause"]["log"]["file"] == "logs/here.log"
    explained = run_clusterctl("explain", "latest")
    assert explained.returncode == 0, explained.stderr
    assert "docker-no-gpu-driver" in explained.stdout
