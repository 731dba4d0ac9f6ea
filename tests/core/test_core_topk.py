"""Top-k all_reduce from Python and under DDP: nothing is lost, all ranks agree, and training still converges."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Program = Callable[..., Any]


def nodes(letters: str) -> Callable[[int], Mapping[str, str]]:
    return lambda rank: {"CCORE_NODE_ID": letters[rank]}


@pytest.mark.parametrize("letters", ["ab", "abc", "abab"])
def test_nothing_is_lost_and_all_ranks_agree(program: Program, letters: str) -> None:
    numpy = pytest.importorskip("numpy")
    size = len(letters)
    ended = program("topk_arrays.py", size=size, per_rank=nodes(letters)).finish()
    assert [one.returncode for one in ended] == [0] * size, ended
    reports = [json.loads(one.output.splitlines()[-1]) for one in ended]
    assert all(report["results"] == reports[0]["results"] for report in reports)
    left = numpy.zeros(401)
    for step in range(3):
        for rank in range(size):
            left += numpy.random.default_rng(10 * step + rank).integers(-40000, 40000, 401) / 8
        left -= numpy.array(reports[0]["results"][step])
        assert sum(value == 0 for value in reports[0]["results"][step]) > 300  # most was not sent
    for report in reports:
        assert report["steps"] == 3
        left[report["begin"] : report["begin"] + len(report["held"])] -= report["held"]
    assert not left.any()


@pytest.mark.parametrize(("letters", "switch"), [("ab", "1"), ("aabb", "0")])
def test_training_needs_the_residual(program: Program, letters: str, switch: str) -> None:
    size = len(letters)
    ended = program(
        "topk_ddp.py",
        size=size,
        per_rank=lambda rank: {**nodes(letters)(rank), "LIGHT_TOPK_ALLREDUCE": switch},
    ).finish()
    assert [one.returncode for one in ended] == [0] * size, ended
    reports = [json.loads(one.output.splitlines()[-1]) for one in ended]
    for report in reports:
        losses = {name: report[name][0] for name in ("dense", "half", "feedback", "forgetful")}
        assert all(report[name][1] for name in losses), report  # the same bits on all ranks
        assert losses == {name: reports[0][name][0] for name in losses}
        assert losses["half"] == pytest.approx(losses["dense"], rel=0.02), losses
        assert losses["feedback"] == pytest.approx(losses["dense"], rel=0.05), losses
        assert losses["forgetful"] > 2 * losses["dense"], losses
        assert report["short_warm"] == report["short_dense"]  # warm-up steps are dense
        # The buckets of the first step are not those of the later ones.
        assert any("rebuilt its buckets" in text for text in report["told"]), report
        assert report["residuals"] == len(report["held"]) > 0
        assert max(report["held"]) == 299
        assert report["registered"] is (switch == "1")


def test_the_environments_hook_reduces_over_the_models_own_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that only some ranks have must not meet the gradients of another one."""
    pytest.importorskip("torch")
    from collective_core import ddp_hooks

    class Model:
        process_group = object()

        def register_comm_hook(self, state: Any, hook: Any) -> None:
            assert hook is ddp_hooks.topk_hook

    monkeypatch.setenv("CCORE_TOPK_ALLREDUCE", "1")
    state = ddp_hooks.from_environment(Model())
    assert state is not None and state.process_group is Model.process_group
    named = object()
    state = ddp_hooks.from_environment(Model(), named)
    assert state is not None and state.process_group is named


LIGHT = {"LIGHT_TOPK_ALLREDUCE": "1", "LIGHT_TOPK_RATIO": "0.01", "LIGHT_TOPK_THRESHOLD": "1"}


def test_a_horovod_script_trains_to_the_dense_loss(program: Program) -> None:
    ended = program("horovod_topk.py", size=2, per_rank=lambda rank: {**nodes("ab")(rank), **LIGHT}).finish()
    assert [one.returncode for one in ended] == [0, 0], ended
    reports = [json.loads(one.output.splitlines()[-1]) for one in ended]
    assert reports[0] == reports[1]
    dense, topk = reports[0]["dense"], reports[0]["topk"]
    assert dense["equal"] and topk["equal"]
    assert (dense["compressed"], topk["compressed"]) == (0, 1200)
    assert topk["loss"] != dense["loss"]
    assert topk["loss"] == pytest.approx(dense["loss"], rel=0.02)


def test_a_horovod_rank_that_was_told_otherwise_is_shown(program: Program) -> None:
    ended = program("horovod_topk.py", "other", size=2, per_rank=nodes("ab")).finish()
    for one in ended:
        assert one.returncode == 0, one.output
        assert '"topk": true' in one.output, one.output
