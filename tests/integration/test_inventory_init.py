"""``inventory init`` probes real nodes, and targets on the command line need no inventory file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pexpect
import pytest
import sshd_farm as farms

from clusterctl.inventory import load


@pytest.fixture(scope="module")
def farm(_farm_possible):
    started = farms.start_farm(2, refusing=1)
    (started.directory / "ssh_config").write_text(f"IdentityFile {started.identity_file}\n")
    yield started
    started.stop()


def targets(farm: farms.Farm, *names: str) -> str:
    nodes = [farm.node(name) for name in names] if names else farm.nodes
    return ",".join(f"{farm.user}@{node.address}:{node.port}" for node in nodes)


def test_targets_are_checked_without_a_file(farm, run_clusterctl):
    done = run_clusterctl("check", targets(farm), "--only", "memlock", "--json", env=farm.env)
    nodes = json.loads(done.stdout)["nodes"]
    assert [(node["name"], node["reachable"]) for node in nodes] == [
        (node.address, node.process is not None) for node in farm.nodes
    ]


def test_init_writes_what_the_probe_finds(farm, run_clusterctl, tmp_path):
    output = tmp_path / "fleet.yaml"
    words = ("inventory", "init", targets(farm), "-o", str(output), "--group", f"one={farm.nodes[0].address}")
    done = run_clusterctl(*words, env=farm.env)
    assert done.returncode == 1, done.stderr
    assert "connection refused" in done.stderr and f"Next: clusterctl check {output}" in done.stderr
    text = output.read_text()
    assert "no NVIDIA GPU, login as root" in text and "did not answer (refused)" in text
    loaded = load.load(output)
    assert [(node.address, node.port, node.user) for node in loaded.nodes] == [
        (node.address, node.port, farm.user) for node in farm.nodes
    ]
    assert loaded.nodes[0].groups == ("one",)

    again = run_clusterctl(*words, env=farm.env)
    assert again.returncode == 2 and f"{output} already exists" in again.stderr
    assert output.read_text() == text
    assert run_clusterctl(*words, "--force", env=farm.env).returncode == 1


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (
            "one=gpu[01-02]",
            "error: --group one: gpu[01-02] is not among the targets\nhint: targets: a[1-2]\n",
        ),
        ("one=a[2-1]", "error: --group one: "),
        ("one", "error: --group 'one': expected NAME=NODESET\n"),
    ],
)
def test_a_wrong_group_is_a_mistake_of_the_command_line(run_clusterctl, group, said):
    done = run_clusterctl("inventory", "init", "root@a[1-2]", "--no-probe", "-o", "-", "--group", group)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_init_writes_nothing_if_no_node_answers(farm, run_clusterctl, tmp_path):
    refusing = next(node.name for node in farm.nodes if node.process is None)
    done = run_clusterctl("inventory", "init", targets(farm, refusing), env=farm.env)
    assert done.returncode == 5
    assert "nothing was written" in done.stderr
    assert not (tmp_path / "inventory.yaml").exists()


def test_an_interrupted_init_writes_nothing(clusterctl, tmp_path):
    child = pexpect.spawn(
        str(clusterctl), ["inventory", "init"], cwd=str(tmp_path), encoding="utf-8", timeout=60
    )
    child.expect("Nodes, such as")
    child.sendintr()
    child.expect("No file was written")
    child.expect(pexpect.EOF)
    assert child.wait() == 130
    assert list(tmp_path.iterdir()) == []


def test_init_asks_on_a_terminal(farm, clusterctl, tmp_path):
    (node, *_) = farm.nodes
    child = pexpect.spawn(
        str(clusterctl), ["inventory", "init"], cwd=str(tmp_path), encoding="utf-8", timeout=60,
        env={**farm.env, "PATH": str(Path(sys.executable).parent), "TERM": "dumb", "HOME": str(tmp_path)},
    )  # fmt: skip
    for question, answer in (
        ("Nodes, such as", "gpu[16-01]"),
        ("runs backwards", None),
        ("Nodes, such as", f"{node.address}:{node.port}"),
        ("Login user", farm.user),
        ("Private key", str(tmp_path / "absent")),
        ("file not found", None),
        ("Private key", str(farm.identity_file)),
        ("Jump host", ""),
    ):
        child.expect(question)
        if answer is not None:
            child.sendline(answer)
    child.expect("Next: clusterctl check\r\n")
    child.expect(pexpect.EOF)
    assert child.wait() == 0
    (found,) = load.load(tmp_path / "inventory.yaml").nodes
    assert (found.user, found.port, found.identity_file) == (farm.user, node.port, str(farm.identity_file))
