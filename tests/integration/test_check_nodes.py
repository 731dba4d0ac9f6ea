"""``clusterctl check`` on real sshd nodes: one connection and at most two execs each, and bad nodes apart."""

from __future__ import annotations

import json
import re


def test_one_connection_and_at_most_two_execs_per_node(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(8)
    done = run_clusterctl("check", str(farm.inventory(tmp_path)), "--json", env=farm.env)
    document = json.loads(done.stdout)
    assert [node["reachable"] for node in document["nodes"]] == [True] * 8, done.stderr
    for node in farm.nodes:
        assert node.connections == 1
        assert 1 <= node.execs <= 2


def test_a_node_that_is_down_does_not_spoil_the_others(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(3)
    farm.nodes[1].stop()
    done = run_clusterctl("check", str(farm.inventory(tmp_path)), "--json", env=farm.env)
    assert done.returncode == 1
    nodes = {node["name"]: node for node in json.loads(done.stdout)["nodes"]}
    down = farm.nodes[1].name
    assert nodes[down]["error"]["kind"] == "refused"
    assert [n for n, node in nodes.items() if node["reachable"]] == [
        n.name for n in farm.nodes if n.name != down
    ]
    others = [[v["status"] for v in node["verdicts"]] for n, node in nodes.items() if n != down]
    assert others[0]
    assert others[0] == others[1]


def test_all_nodes_down_exits_5(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(2)
    for node in farm.nodes:
        node.stop()
    done = run_clusterctl("check", str(farm.inventory(tmp_path)), env=farm.env)
    assert done.returncode == 5
    assert "\nunreachable: " in done.stdout and ": refused: " in done.stdout
    assert done.stderr.startswith("Gathered facts of 0 of 2 nodes in ") and done.stderr.count("\n") == 2


def test_a_typo_in_the_inventory_contacts_nothing(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1)
    inventory = farm.inventory(tmp_path)
    inventory.write_text(inventory.read_text() + "nodse: []\n")
    done = run_clusterctl("check", str(inventory), env=farm.env)
    assert done.returncode == 4
    assert "nodse" in done.stderr and "nodes" in done.stderr
    assert farm.nodes[0].connections == 0


def test_check_leaves_its_three_files_in_a_private_run_folder(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1)
    run_clusterctl("check", str(farm.inventory(tmp_path)), env=farm.env)
    (run,) = (tmp_path / "runs").iterdir()
    assert run.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in run.iterdir()) == ["facts.json", "inventory.json", "report.json"]


def test_the_count_the_reasons_and_the_next_command_are_the_product(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(2, refusing=1)
    inventory = str(farm.inventory(tmp_path))
    done = run_clusterctl("check", "--only", "rdma-link", inventory, env=farm.env)
    (count,) = [line for line in done.stdout.splitlines() if line.startswith("Checked ")]
    lost = farm.nodes[-1].name
    meet = "2 nodes meet every requirement that applies (0 of 1)"
    assert count == f"Checked 2 of 3 nodes; {lost} is down; {meet}"
    onward = f"Next: clusterctl bench {inventory} --limit '!{lost}'  # measures the nodes without {lost}"
    assert done.stdout.splitlines()[-1] == onward
    assert ": refused: " in done.stdout and ": refused: " not in done.stderr
    done = run_clusterctl("check", "--only", "disk,rdma-link", inventory, env=farm.env)
    assert done.stdout.splitlines()[-1].startswith("Next: clusterctl bench ")
    every = run_clusterctl("check", "--all", "--only", "rdma-link", inventory, env=farm.env).stdout
    assert re.search(r"^not measured +rdma-link ", every, re.MULTILINE)


def test_the_page_and_the_table_fold_equal_nodes_and_have_every_reason(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(4, refusing=1)
    wanted = "{rdma_link: {require: true}, cluster_file: {path: /etc/sysconfig/rdma/absent, content: a}}"
    inventory = str(farm.inventory(tmp_path, requirements=wanted))
    page = tmp_path / "fleet.html"
    done = run_clusterctl(
        "check", inventory, "--only", "rdma-link,cluster-file", "--html", str(page), env=farm.env
    )
    assert done.returncode == 1 and "refused" not in done.stderr
    assert f"\nreport: {page}\n" in done.stderr
    lines = done.stdout.splitlines()
    # All nodes of the farm are this machine, so that there is one row per requirement and no column of nodes.
    assert [line.split()[:3] for line in lines if line.startswith(("status", "bad"))] == [
        ["status", "fix", "requirement"],
        ["bad", "you", "rdma-link"],
        ["bad", "bootstrap", "cluster-file"],
    ]
    assert (
        f"Next: clusterctl bootstrap {inventory} --only rdma-link,cluster-file  # shows a plan" in done.stdout
    )
    assert lines[-1].startswith("Next: clusterctl requirements show rdma-link")
    text = page.read_text()
    for kind in ("bad", "fixable"):
        assert text.count(f'<td class="{kind}"') == 1 + 4  # one folded row, and one per node
    for reason in (
        "the node has no RDMA device",
        "/etc/sysconfig/rdma/absent does not exist",
        "connection refused",
    ):
        assert reason in text and reason in done.stdout
    assert all(node.name in text for node in farm.nodes)
