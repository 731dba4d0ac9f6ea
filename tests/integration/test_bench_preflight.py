"""``bench --preflight`` on real sshd nodes with a real mpirun: the first rung that fails is named, and ends it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterctl.launch import readiness
from clusterctl.launch.ladder import RUNGS

WORDS = ("--preflight", "--library", "gloo", "-np", "2", "--json")


@pytest.fixture(autouse=True)
def _mpirun(tier_unavailable: Callable[[str], None]) -> None:
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")


def inventory(farm: Any, tmp_path: Path, **more: Any) -> Path:
    return Path(farm.inventory(tmp_path, socket_ifname="lo", slots=1, python=sys.executable, **more))


def statuses(done: Any) -> list[str]:
    document = json.loads(done.stdout)
    assert [rung["name"] for rung in document["rungs"]] == list(RUNGS)
    return [rung["status"] for rung in document["rungs"]]


def test_every_rung_to_eight_bytes(run_clusterctl: Any, sshd_farm: Any, tmp_path: Path) -> None:
    farm = sshd_farm(2)
    done = run_clusterctl("bench", "-i", str(inventory(farm, tmp_path)), *WORDS, env=farm.env)
    assert done.returncode == 0, done.stderr
    assert statuses(done) == ["ok"] * 6
    details = {rung["name"]: rung["detail"] for rung in json.loads(done.stdout)["rungs"]}
    assert details["nodes answer"] == "2 nodes"
    assert details["ssh between nodes"] == "from node01 to 1 peer"
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft // 1024} KiB on node[01-02]"
    assert details["locked memory"].startswith(limit), details
    assert details["ranks start"].startswith("2 ranks: ")
    assert details["8 bytes"].startswith("all_reduce correct in ")
    (folder,) = (tmp_path / "runs").glob("*-preflight-*")
    assert json.loads((folder / "preflight.json").read_text())["status"] == "ok"
    facts = json.loads((folder / "facts.json").read_text())
    assert set(facts["subjects"]) == readiness.READS
    assert [node["launch"]["mpirun"]["path"] for node in facts["nodes"].values()] == [
        shutil.which("mpirun")
    ] * 2
    assert [node["root"]["way"] for node in facts["nodes"].values()] == [
        "root" if os.geteuid() == 0 else "none"
    ] * 2


def test_ssh_between_the_nodes_is_the_rung_that_fails(
    run_clusterctl: Any, sshd_farm: Any, tmp_path: Path
) -> None:
    farm = sshd_farm(2)
    config = farm.directory / "ssh_config"
    config.write_text(f"Host *\n  IdentityFile {farm.identity_file}\n")
    path = inventory(farm, tmp_path)
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if "identity_file" not in line)
    )
    done = run_clusterctl("bench", "-i", str(path), *WORDS[:-1], env={**farm.env, "HOME": str(tmp_path)})
    assert done.returncode == 10, done.stderr
    sentence, _, *lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["nodes", "answer", "good"],
        ["programs", "good", "openmpi,"],
    ]
    assert sentence.startswith("bad (failed): node01 cannot reach node02")
    assert done.stdout.count("not measured (not reached)") == 3
    shown = run_clusterctl("runs", "show", "latest", env={**farm.env, "HOME": str(tmp_path)}).stdout
    assert shown.endswith("\n\n" + done.stdout)
    assert f"clusterctl bootstrap {path} --only ssh-mesh" in done.stderr


def test_a_node_that_is_down_is_the_first_rung(run_clusterctl: Any, sshd_farm: Any, tmp_path: Path) -> None:
    farm = sshd_farm(1, refusing=1)
    done = run_clusterctl("bench", "-i", str(inventory(farm, tmp_path)), *WORDS, env=farm.env)
    assert done.returncode == 5, done.stderr
    assert statuses(done) == ["failed", *["not-reached"] * 5]
    assert json.loads(done.stdout)["failures"][0]["node"] == "node02"


def test_a_launcher_that_starts_nothing_is_named(run_clusterctl: Any, sshd_farm: Any, tmp_path: Path) -> None:
    """An injected fault: an mpirun that says its version and then fails as one does that finds no daemon."""
    farm = sshd_farm(2)
    broken = tmp_path / "mpirun"
    broken.write_text(
        f'#!/bin/sh\ncase " $* " in *" --version "*) exec {shutil.which("mpirun")} --version ;; esac\n'
        "echo 'bash: orted: command not found' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    path = inventory(farm, tmp_path, mpirun=str(broken))
    done = run_clusterctl("bench", "-i", str(path), *WORDS, env=farm.env)
    assert done.returncode == 10, done.stderr
    assert statuses(done) == ["ok", "ok", "ok", "ok", "failed", "not-reached"]


def test_this_machine_alone_needs_no_ssh(run_clusterctl: Any) -> None:
    done = run_clusterctl("bench", *WORDS, "--launcher", "local")
    assert done.returncode == 0, done.stderr
    assert statuses(done) == ["ok", "ok", "not-needed", "not-needed", "ok", "ok"]


def test_figures_and_preflight_are_not_asked_for_together(run_clusterctl: Any) -> None:
    done = run_clusterctl("bench", "--preflight", "--model", "resnet18")
    assert done.returncode == 2
    assert "--preflight runs no benchmark, so --model cannot be combined with it" in done.stderr
