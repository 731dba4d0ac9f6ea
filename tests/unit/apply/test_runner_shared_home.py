"""Nodes that share a home: two runners change one file at the same moment."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import WriteBlock


@pytest.fixture(params=["bash", "dash"])
def shell(request, tier_unavailable):
    """Without busybox, whose mv is its own: nothing could stand between."""
    if shutil.which(request.param) is None:
        tier_unavailable(f"{request.param} is missing")
    return (request.param,)


def test_a_node_that_comes_between_another_ones_new_text_and_its_place_takes_nothing_away(runner, tmp_path):
    keys = runner.root / "keys"
    keys.write_text("ssh-ed25519 AAAA alice\n")
    plan = NodePlan("n", (PlannedStep("test", WriteBlock("the block", str(keys), "mesh", "one\n")),))
    for name, node in (("first", runner), ("second", replace(runner, state=tmp_path / "its-state"))):
        (tmp_path / name).write_text(f"{name}\n")
        text = script.apply_script(node.header("run1"), plan)
        (tmp_path / f"{name}.sh").write_text(text.replace("/proc/sys/kernel/hostname", str(tmp_path / name)))
    came = tmp_path / "came"
    second = f"touch {came}; {runner.shell[0]} -s <{tmp_path}/second.sh >{tmp_path}/second.out"
    between = f"case $* in *{keys}) [ -e {came} ] || {{ {second}; }} ;; esac\n"
    env = runner.stand_ins(mv=f'{between}exec {shutil.which("mv")} "$@"\n')
    ran = runner.run_text((tmp_path / "first.sh").read_text(), env)
    assert ran.events(1) == [(1, "begin"), (1, "changed")], ran.records
    assert " changed " in (tmp_path / "second.out").read_text()
    marked = "# BEGIN clusterctl mesh\none\n# END clusterctl mesh\n"
    assert keys.read_text() == f"ssh-ed25519 AAAA alice\n{marked}"
    assert [path.name for path in runner.root.iterdir()] == ["keys"]
