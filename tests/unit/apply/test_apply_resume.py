"""A run that is resumed: the order of its remaining steps, and the steps that nothing requires any longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterctl.apply import script
from clusterctl.apply.engine import merge
from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep
from clusterctl.requirements.steps import Command, LoadModule, RestartUnit, WriteFile

ONE, TWO = WriteFile("one", "/etc/one", "1"), WriteFile("two", "/etc/two", "2")
RESTART, MODULE = RestartUnit("restart", "x.service"), LoadModule("load", "m")


@pytest.mark.parametrize(
    ("stored", "fresh", "order"),
    [
        ((ONE, RESTART), (TWO, RESTART), (TWO, ONE, RESTART)),
        ((ONE, MODULE, RESTART), (ONE, RESTART), (ONE, MODULE, RESTART)),
        ((ONE, RESTART), (TWO,), (TWO, ONE, RESTART)),
        ((ONE, RESTART), (RESTART, ONE), (RESTART, ONE)),
        ((), (ONE, RESTART), (ONE, RESTART)),
        ((ONE, RESTART), (), (ONE, RESTART)),
    ],
)
def test_a_restart_follows_what_was_planned_before_it_and_what_has_come_since(stored, fresh, order):
    plans = (Plan((NodePlan("n", tuple(PlannedStep("t", s) for s in steps)),)) for steps in (stored, fresh))
    assert [p.step for p in merge(*plans).of("n").steps] == list(order)


def test_what_only_an_earlier_part_asked_for_is_done_where_that_part_had_begun(runner):
    conf, other, mark = (runner.root / name for name in ("conf", "other", "mark"))
    begun = WriteFile("conf", str(conf), "planned\n")
    left = (
        PlannedStep("begun", begun),
        PlannedStep("begun", Command("after it", ("touch", str(mark)), None)),
        PlannedStep("other", WriteFile("other", str(other), "planned\n")),
    )
    runner.apply(begun, requirement="begun")
    conf.unlink()
    other.write_text("seen to by hand\n")
    header = replace(runner.header("run1"), left_over=frozenset(map(script.step_key, left)))
    ran = runner.run_text(script.apply_script(header, NodePlan("n", left)))
    assert [r.event.value for r in ran.records if r.number] == [
        *("begin", "changed"), *("begin", "changed"), "unchanged",
    ]  # fmt: skip
    assert "no step of other had begun" in ran.detail("unchanged")
    assert runner.contents() == {"conf": b"planned\n", "mark": b"", "other": b"seen to by hand\n"}
