"""Run one rank's training loop: precision, DDP, compilation, the step, and its throughput.

Throughput is measured by the wall clock over windows of steps between two synchronisations of the device, so it
includes the host's time, as in training.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from clusterctl.workloads import places
from clusterctl.workloads.data_parallel import DataParallel
from clusterctl.workloads.models import parameter_count

PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16")
_HALVES = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


class Task(Protocol):
    """What is trained on what; a sample is an image or a sequence."""

    sample: str
    batch_size: int
    learning_rate: float

    def settings(self) -> dict[str, Any]:
        """Return what a result must say of this task."""

    def build(self, device: torch.device) -> nn.Module:
        """Return the model on its device."""

    def optimizer(
        self, model: nn.Module, learning_rate: float, device: torch.device
    ) -> torch.optim.Optimizer:
        """Return the optimiser of the model's parameters."""

    def batch(self, generator: torch.Generator, device: torch.device) -> tuple[Tensor, ...]:
        """Return one step's data."""

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the loss of one step, a scalar."""


@dataclass(frozen=True)
class Ways:
    """How a task is trained, whatever it is. ``learning_rate`` None: the task's own."""

    precision: str = "fp32"
    compile: bool = False
    learning_rate: float | None = None
    seed: int = 20
    fresh: bool = False
    """New data for every step instead of one batch."""

    def settings(self) -> dict[str, Any]:
        """Return what a result must say of it."""
        return {
            "precision": self.precision,
            "compile": self.compile,
            "data": "synthetic-fresh" if self.fresh else "synthetic",
        }


@dataclass(frozen=True)
class Windows:
    """How long is trained: steps before the clock starts, timed windows, and steps in each."""

    warmup: int
    count: int
    steps: int


class Trainer:
    """A model, its optimiser and its data on one rank; ``step`` makes one optimisation step."""

    def __init__(
        self,
        task: Task,
        ways: Ways,
        place: places.Place,
        device: torch.device,
        together: DataParallel | None = None,
    ) -> None:
        """Prepare the training; ``together``: with the other ranks, which have joined."""
        # On other devices torch would silently compute in fp32.
        if ways.precision == "tf32" and device.type != "cuda":
            raise places.RankError(
                "the precision tf32 needs an NVIDIA GPU; use fp32 or amp-bf16 on this device"
            )
        torch.manual_seed(ways.seed)
        self.task, self.device, self.together = task, device, together
        torch.backends.cuda.matmul.allow_tf32 = ways.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = ways.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        model = task.build(device)
        self.parameters = parameter_count(model)
        self.half = _HALVES.get(ways.precision)
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half is torch.float16)
        # Each rank has different data, as in training; the model's seed is the same on all ranks.
        self.generator = torch.Generator(device=device).manual_seed(ways.seed + 1 + place.rank)
        self.fresh = ways.fresh
        self.data = task.batch(self.generator, device)
        rate = task.learning_rate if ways.learning_rate is None else ways.learning_rate
        self.model: nn.Module = model
        self.optimizer = task.optimizer(model, rate, device)
        if together is not None:
            self.model, self.optimizer = together.distribute(model, self.optimizer, self._step_of)
        if ways.compile:
            # Compiled around DDP: the graph is split at its buckets, and communication overlaps with the backward pass.
            self.model = torch.compile(self.model)  # type: ignore[assignment]

    def _step_of(self, model: nn.Module) -> None:
        """Make one step with a model that holds this one, and keep no reference to it."""
        own, self.model = self.model, model
        try:
            self.step()
        finally:
            self.model = own

    def step(self) -> Tensor:
        """Make one step and return its loss, still on the device."""
        if self.fresh:
            self.data = self.task.batch(self.generator, self.device)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=self.half, enabled=self.half is not None):
            loss = self.task.loss(self.model, self.data)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if self.together is None:
            self.scaler.step(self.optimizer)
        else:
            self.together.update(self.scaler, self.optimizer)
        self.scaler.update()
        return loss.detach()

    def settle(self) -> None:
        """Wait until the device has finished all queued work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def digest(self) -> str:
        """Return a figure that is equal on two ranks when their parameters are equal bit for bit."""
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for index, parameter in enumerate(self.model.parameters()):
            total += parameter.detach().double().abs().sum() * (1.0 + 1e-3 * index)
        return float(total).hex()


@dataclass(frozen=True)
class Figures:
    """Hold samples per second and the last loss of each timed window, and the loss of the first step."""

    rates: list[float]
    losses: list[float]
    loss_first: float


def measure(
    trainer: Trainer,
    windows: Windows,
    report: Callable[[int, float], None] = lambda *_: None,
    watching: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Figures:
    """Warm up, then time the windows; a loss that is not a finite number ends the measurement.

    ``report`` receives the number and the rate of each window when it ends, outside of the measured time.
    ``watching``: entered during the warm-up.
    """
    with watching():
        first = trainer.step()
        for _ in range(max(0, windows.warmup - 1)):
            trainer.step()
        trainer.settle()
    rates: list[float] = []
    losses: list[float] = []
    for number in range(1, windows.count + 1):
        trainer.settle()
        started = time.perf_counter()
        last = first
        for _ in range(windows.steps):
            last = trainer.step()
        trainer.settle()
        rates.append(trainer.task.batch_size * windows.steps / (time.perf_counter() - started))
        report(number, rates[-1])
        losses.append(float(last))
        if not math.isfinite(losses[-1]):
            break
    return Figures(rates, losses, float(first))


# Windows with and without an exchange of gradients, interleaved.
_PAIRS = 2


def steps_apart(trainer: Trainer, steps: int) -> tuple[float, float] | None:
    """Return the median seconds of a step with and without the exchange of gradients; None if it cannot be left out.

    The replicas differ afterwards. All ranks must call it at the same time.
    """
    together = trainer.together
    if together is None or steps < 1 or together.apart() is None:
        return None
    times: dict[bool, list[float]] = {True: [], False: []}
    for alone in (True, False) * _PAIRS:
        trainer.settle()
        with (together.apart() if alone else None) or nullcontext():
            # The first step after a change may set up what the steps before did not use.
            trainer.step()
            trainer.settle()
            started = time.perf_counter()
            for _ in range(steps):
                trainer.step()
            trainer.settle()
        times[alone].append((time.perf_counter() - started) / steps)
    return statistics.median(times[False]), statistics.median(times[True])
