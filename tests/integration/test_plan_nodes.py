"""The plan of a bootstrap on real nodes: all of it on stdout, equal nodes in one block, read in the same login."""

from __future__ import annotations

import json

import pytest

CONTENT = "IB_HCA=mlx5_0\nHF_TOKEN=hf_abcdefghijkl\n"
FILE = "/etc/sysconfig/rdma/clusterctl-test"


@pytest.fixture
def dry_run(sshd_farm, run_clusterctl, tmp_path):
    """Four equal nodes and one that refuses, on which keys for ssh and a file are wanted: (farm, the command run)."""
    farm = sshd_farm(4, refusing=1)
    wanted = {
        "ssh_mesh": {"require": True, "name": "plan-test"},
        "cluster_file": {"path": FILE, "content": CONTENT},
    }
    inventory = str(farm.inventory(tmp_path, requirements=json.dumps(wanted)))

    def run(*options):
        return run_clusterctl(
            "bootstrap", inventory, "--dry-run", "--only", "cluster-file,ssh-mesh", *options, env=farm.env
        )

    return farm, run


def test_stdout_holds_the_whole_plan_and_equal_nodes_are_one_block(dry_run):
    farm, run = dry_run
    done = run()
    plan = done.stdout.partition("\nPlan: ")[0].splitlines()
    assert plan[:4] == [
        "node[01-04] (4 nodes):",
        f"  + cluster-file  Write {FILE} (new file, mode 644)",
        "      + IB_HCA=mlx5_0",
        f"      + HF_TOKEN={'*' * 15}",
    ]
    assert plan[4].startswith("  ~ ssh-mesh      Make a key for root's logins to the other nodes: ")
    assert not [line for line in plan[5:] if line.startswith("  ")][2:], "a second block"
    assert "\nPlan: 8 changes on 4 nodes, 0 restarts, 0 reboots\n" in done.stdout
    assert "node05: refused: " in done.stdout
    assert "hf_abcdefghijkl" not in done.stdout + done.stderr
    assert not [
        word for word in ("cluster-file", "ssh-mesh", "refused") if word in done.stderr.partition("Next: ")[0]
    ]
    assert [node.connections for node in farm.nodes[:4]] == [1] * 4


def test_with_json_stdout_is_the_document(dry_run):
    _, run = dry_run
    done = run("--json")
    assert json.loads(done.stdout)["summary"]["planned"] == 8
    assert "Make a key" not in done.stderr and "node05: refused: " in done.stderr
