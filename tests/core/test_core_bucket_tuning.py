"""Bucket tuning: the pure choice on made-up times, and real DDP on two ranks with an injected clock."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Program = Callable[..., Any]


def tuner(candidates: tuple[float | None, ...], margin: float = 0.02) -> Any:
    from collective_core.bucket_tuning import BucketTuner

    return BucketTuner(candidates, margin)


def settle(
    candidates: tuple[float | None, ...], first: list[float], second: dict[float | None, float]
) -> Any:
    """Play the times; `second` is what a candidate takes when it is measured again."""
    found = tuner(candidates)
    by_first = dict(zip(candidates, first, strict=True))
    measured = []
    while pending := found.pending():
        cap = pending[0]
        found.record(cap, second[cap] if cap in measured else by_first[cap])
        measured.append(cap)
    return found.best, measured


@pytest.mark.parametrize(
    ("first", "second", "best", "measured"),
    [
        ([3.0, 2.0, 1.0], {None: 3.0, 4: 1.0}, 4, [None, 1, 4, None, 4]),
        # Luck: the second time it is not faster.
        ([3.0, 2.0, 1.0], {None: 3.0, 4: 2.99}, None, [None, 1, 4, None, 4]),
        # Less than the margin is noise, and is not measured again.
        ([3.0, 2.99, 2.95], {}, None, [None, 1, 4]),
        ([1.0, 2.0, 3.0], {}, None, [None, 1, 4]),
    ],
)
def test_the_choice(
    first: list[float], second: dict[float | None, float], best: float | None, measured: list[float | None]
) -> None:
    assert settle((None, 1, 4), first, second) == (best, measured)


def test_one_candidate_wins() -> None:
    assert settle((10,), [1.0], {}) == (10, [10])


@pytest.mark.parametrize("candidates", [(), (1, 1)])
def test_lists_that_make_no_sense_are_refused(candidates: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="different bucket sizes"):
        tuner(candidates)


@pytest.mark.parametrize(
    ("case", "given", "best", "steps"),
    [
        ("costs", {}, 0.1, 5 * (4 + 2)),
        ("default", {}, None, 5 * 4),
        ("costs", {"AIACC_BUCKET_TUNE_DISABLE": "1"}, None, 0),
    ],
)
def test_ranks_agree_while_they_train(
    program: Program, case: str, given: dict[str, str], best: float | None, steps: int
) -> None:
    ended = program("bucket_tuning.py", case, size=2, per_rank=lambda _: given).finish()
    assert [one.returncode for one in ended] == [0, 0], ended
    reports = [json.loads(one.output.splitlines()[-1]) for one in ended]
    assert reports[0] == reports[1]
    assert reports[0]["best"] == best
    assert reports[0]["steps"] == steps
    assert reports[0]["same"], "the parameters are not those of one process that trained on all data"
    if case == "costs" and steps:
        assert reports[0]["times"] == [
            3.0,
            5.0,
            2.0,
            2.5,
        ]  # of the slower rank, without the steps that warm up


REFUSED = """
import torch
from collective_core.bucket_tuning import distinct, tuned_ddp
model = torch.nn.Linear(1 << 10, 1 << 10, bias=False)  # 4 MiB
assert distinct((None, 1, 3, 4, 10, 25), model) == [None, 1, 3, 4]
for options in ({"bucket_cap_mb": 3}, {"samples": 0}):
    try:
        tuned_ddp(model, print, **options)
    except ValueError as error:
        print(error)
"""


def test_options_that_do_not_fit_are_refused() -> None:
    done = subprocess.run(
        (sys.executable, "-c", REFUSED),
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "leave bucket_cap_mb out" in done.stdout
    assert "at least 1 of each" in done.stdout


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_ddp_that_trains_gets_the_buckets_of_another() -> None:
    import torch
    from collective_core.torch.unasked_buckets import SAMPLES, WARMUP, Tuning
    from torch.nn.parallel import DistributedDataParallel

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    ddp = DistributedDataParallel(model)
    now = [0.0]

    def renew(_ddp: DistributedDataParallel, cap: float | None) -> DistributedDataParallel:
        return DistributedDataParallel(model, bucket_cap_mb=cap)

    def gradients(of: torch.nn.Module) -> list[torch.Tensor]:
        model.zero_grad()
        of(torch.ones(2, 4)).sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    tuning = Tuning(ddp, renew, (None, 1), clock=lambda: now[0])
    whole = torch.optim.SGD(ddp.parameters(), lr=0.1)
    part = torch.optim.SGD(model[0].parameters(), lr=0.1)
    assert tuning.is_stepped_by(whole)
    assert not tuning.is_stepped_by(part)
    expected, steps, going_on = gradients(model), 0, True
    while going_on:
        for one, other in zip(gradients(ddp), expected, strict=True):
            assert torch.equal(one, other)
        now[0] += 1.0 if ddp.bucket_bytes_cap == 1 << 20 else 2.0
        going_on = tuning.end_step()
        steps += 1
    assert steps == 4 * (WARMUP + SAMPLES)  # each twice: the faster one must win again
    assert ddp.bucket_bytes_cap == 1 << 20
    # What a script registers on its DDP afterwards must not be lost.
    again = Tuning(ddp, renew, (None, 1))
    assert again.end_step()
    ddp.register_comm_hook(None, lambda _state, bucket: bucket.buffer())
    assert not again.end_step()


def settings(of: Any) -> Any:
    return of.bucket_bytes_cap, of.reducer


@pytest.mark.usefixtures("alone")
def test_buckets_change_on_all_ranks_or_none_and_state_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a script that keeps buffers of its own per rank, or trains locally, rank 0's must not replace them."""
    import torch
    import torch.distributed as dist
    from collective_core.torch import unasked_buckets
    from torch.nn.parallel import DistributedDataParallel, distributed

    if "init_sync" not in inspect.signature(DistributedDataParallel).parameters:
        pytest.skip(
            "DDP of torch 2.4 copies rank 0's state whenever it is made, so its buckets are not tuned"
        )
    made: list[Callable[[DistributedDataParallel, float | None], DistributedDataParallel]] = []
    monkeypatch.setattr(DistributedDataParallel, "__init__", DistributedDataParallel.__init__)
    monkeypatch.setattr(unasked_buckets, "register_optimizer_step_post_hook", lambda _hook: None)
    monkeypatch.setattr(unasked_buckets, "_consider", lambda _ddp, renew: made.append(renew))
    unasked_buckets.serve()
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    ddp = DistributedDataParallel(model)
    (renew,) = made
    with monkeypatch.context() as patched:
        patched.setattr(distributed, "_sync_module_states", lambda **_: pytest.fail("state was replaced"))
        fresh = renew(ddp, 1)
    assert fresh.bucket_bytes_cap == 1 << 20
    del fresh

    def fail(_ddp: object, _cap: object) -> DistributedDataParallel:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    now = iter(range(100))
    tuning = unasked_buckets.Tuning(ddp, fail, (None, 1), clock=lambda: next(now))
    before = settings(ddp)
    with caplog.at_level("INFO", "collective_core"):
        steps = 1
        while tuning.end_step():
            steps += 1
    assert steps == unasked_buckets.WARMUP + unasked_buckets.SAMPLES
    assert settings(ddp) == before
    assert "cannot become 1: CUDA out of memory." in caplog.text
    assert "stays the default: a rank could not make other buckets" in caplog.text

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for reason, change in (
        ("a CUDA graph is captured", (torch.cuda, "is_current_stream_capturing", lambda: True)),
        ("results are to be reproducible", (torch.backends.cudnn, "deterministic", True)),
        ("other parameters are trained now", (model[0].bias, "requires_grad", False)),
    ):
        caplog.clear()
        again = unasked_buckets.Tuning(ddp, renew, (None, 1))
        with monkeypatch.context() as patched, caplog.at_level("INFO", "collective_core"):
            patched.setattr(*change)
            assert not again.end_step()
        assert f"bucket_cap_mb of DDP stays the default: {reason}" in caplog.text
    ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    assert not unasked_buckets.Tuning(ddp, renew, (None, 1)).end_step()
    del ddp
    assert again.has_ended()
