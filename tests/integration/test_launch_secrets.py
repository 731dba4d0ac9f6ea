"""Secrets of the inventory reach every rank through every launcher, and stand in no command line and no file."""

from __future__ import annotations

import json

import pytest
from canaries import Watch, everything_below
from launcher_nodes import LAUNCHERS, NAMES, inventory, ready

CANARIES = {"token": "canaryHfToken", "key": "canaryWandbKey", "proxy": "canaryProxyLogin"}
# Long enough to be seen, on the ranks' nodes too.
PROGRAM = '#!/bin/sh\nsleep 1\necho "lengths ${#HF_TOKEN} ${#WANDB_API_KEY} ${#https_proxy}"\n'
VALUES = {
    "HF_TOKEN": CANARIES["token"],
    "WANDB_API_KEY": CANARIES["key"],
    "https_proxy": f"http://me:{CANARIES['proxy']}@proxy:3128",
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_ranks_have_them_and_nobody_else_sees_them(
    request, run_clusterctl, sshd_farm, tmp_path, tier_unavailable, name
):
    _, settings = ready(request, name, tier_unavailable)
    program = tmp_path / "all_reduce_perf"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    farm = sshd_farm(2)
    path = inventory(
        farm, tmp_path, {**settings, "all_reduce_perf": program, "env": json.dumps(VALUES)}, (1, 1)
    )
    with Watch(CANARIES, marker=str(program)) as watch:
        done = run_clusterctl(
            "-vv", "bench", "-i", path, "--launcher", NAMES[name], "--library", "ccore", "-np", "2",
            "--html", str(tmp_path / "runs.html"), "--junit", str(tmp_path / "runs.xml"), "--json", env=farm.env,
        )  # fmt: skip
    (folder,) = [found for found in (tmp_path / "runs").iterdir() if found.is_dir()]
    lengths = " ".join(str(len(value)) for value in VALUES.values())
    for rank in (0, 1):
        assert f"lengths {lengths}\n" in (folder / "logs" / f"rank-{rank}.log").read_text(), done.stderr
    assert watch.seen > 0
    assert watch.found == set()
    said = {"output": done.stdout + done.stderr, **{node.name: node.log_text() for node in farm.nodes}}
    files = everything_below(tmp_path) | said
    files.pop(path)
    for name_of, canary in CANARIES.items():
        assert [file for file, text in files.items() if canary in text] == [], name_of
