"""Unloading modules: those that came to rest on one after the run had loaded it go first."""

from __future__ import annotations

import shutil

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import LoadModule

# Like the kernel's: what something rests on stays, and is named.
MODPROBE = """
[ "$1" = -r ] || exec mkdir -p {modules}/$1/holders
on_it=$(ls {modules}/$2/holders)
[ -z "$on_it" ] || {{ echo "FATAL: Module $2 is in use by: $on_it" >&2; exit 1; }}
rm -r {modules}/$2
rm -f {modules}/*/holders/$2
"""


@pytest.fixture(params=["bash", "dash"])
def shell(request, tier_unavailable):
    """Without busybox, whose shell has a modprobe of its own and runs that."""
    if shutil.which(request.param) is None:
        tier_unavailable(f"{request.param} is missing")
    return (request.param,)


def test_an_undo_unloads_what_came_to_rest_on_its_module_before_it(runner, tmp_path):
    modules = tmp_path / "modules"
    env = runner.stand_ins(modprobe=MODPROBE.format(modules=modules))

    def run(text):
        assert "/sys/module/" in text
        return runner.run_text(text.replace("/sys/module/", f"{modules}/"), env)

    plan = NodePlan("n", (PlannedStep("t", LoadModule("load", "nvidia")),))
    assert run(script.apply_script(runner.header("run1"), plan)).events(1)[-1] == (1, "changed")
    for module, below in (
        ("nvidia_uvm", "nvidia"),
        ("nvidia_modeset", "nvidia"),
        ("nvidia_drm", "nvidia_modeset"),
    ):
        (modules / module / "holders").mkdir(parents=True)
        (modules / below / "holders" / module).touch()
    ran = run(script.undo_script(runner.header("run1")))
    assert ran.events(1) == [(1, "entry"), (1, "changed")], ran.records
    assert list(modules.iterdir()) == []
