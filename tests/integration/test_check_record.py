"""``clusterctl check --record`` on real sshd nodes, replayed after all of them are gone; drift between real answers."""

from __future__ import annotations

import json


def test_a_fleet_that_is_gone_is_judged_alike_from_its_recording(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(4)
    inventory = farm.inventory(tmp_path)
    farm.nodes[2].stop()
    live = run_clusterctl("check", str(inventory), "--json", "--record", str(tmp_path / "bug"), env=farm.env)
    assert [node["reachable"] for node in json.loads(live.stdout)["nodes"]] == [True, True, False, True]
    assert "gives different verdicts" not in live.stderr
    for node in farm.nodes:
        node.stop()
    inventory.unlink()
    replayed = run_clusterctl("check", "--json", "--replay", str(tmp_path / "bug"), env={})
    document = json.loads(live.stdout)
    assert document.pop("run") in live.stderr
    assert json.loads(replayed.stdout) == document
    assert replayed.returncode == live.returncode
    table = run_clusterctl("check", "--replay", str(tmp_path / "bug"), env={}).stdout
    assert "(3 nodes)" in table
    assert f"unreachable: {farm.nodes[2].name}" in table


def test_the_second_check_looks_at_what_the_first_saw(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(2)
    inventory = farm.inventory(tmp_path)
    first = run_clusterctl("check", str(inventory), "--json", env=farm.env)
    limited = run_clusterctl(
        "check",
        str(inventory),
        "--json",
        "--limit",
        farm.nodes[0].name,
        "--record",
        str(tmp_path / "b"),
        env=farm.env,
    )
    assert first.returncode == limited.returncode
    recorded = json.loads((tmp_path / "b" / "inventory.json").read_text())
    assert [node["name"] for node in recorded["beyond"]] == [farm.nodes[1].name]
