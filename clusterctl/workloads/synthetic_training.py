"""Run a synthetic training on one rank: data made in memory, DDP, images or sequences per second.

The measurement follows Horovod's synthetic benchmark (warm-up, then windows of steps; mean and 1.96 sigma),
and its two result lines are printed as well, because many scripts read them.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from clusterctl.workloads import (
    bert,
    binding,
    data_parallel,
    energy,
    entry,
    places,
    ranks,
    records,
    torchvision_models,
    usage,
)
from clusterctl.workloads.bert_task import PHASES, BertPretraining
from clusterctl.workloads.image_task import ImageClassification
from clusterctl.workloads.models import MODELS
from clusterctl.workloads.trainer import PRECISIONS, Task, Trainer, Ways, Windows, measure, steps_apart
from clusterctl.workloads.training_sizes import Sizes, default_sizes

EXIT_NOT_FINITE = 3


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; defaults of sizes depend on the model and the device."""
    parser = argparse.ArgumentParser(prog="training")
    names = sorted({*MODELS, *bert.CONFIGS, *torchvision_models.NAMES})
    parser.add_argument("--model", choices=names, default="resnet50", metavar="NAME")
    parser.add_argument("--backend", default=None, help="nccl, gloo, ccore, or a library of --api horovod")
    parser.add_argument("--api", choices=data_parallel.APIS, default="ddp", help="how ranks train one model")
    parser.add_argument("--hook", choices=data_parallel.HOOKS, default="none", help="compress gradients")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--batch-size", type=int, default=None, help="samples per rank and step")
    parser.add_argument("--image-size", type=int, default=None, help="pixels per side")
    parser.add_argument(
        "--phase", type=int, choices=sorted(PHASES), default=1, help="phase of BERT's pretraining"
    )
    parser.add_argument("--warmup", type=int, default=None, help="steps before the clock starts")
    parser.add_argument("--windows", type=int, default=None, help="timed windows")
    parser.add_argument("--steps", type=int, default=None, help="steps per window")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile, around DDP")
    parser.add_argument(
        "--bucket-cap-mb", type=_buckets, default=None, help="size of the gradient buckets; auto: measure it"
    )
    parser.add_argument(
        "--data", choices=("fixed", "fresh"), default="fixed", help="one batch, or one per step"
    )
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--timeout-s", type=float, default=600.0, help="deadline of the whole run")
    return parser.parse_args(argv)


def _buckets(text: str) -> float | str:
    return text if text == "auto" else float(text)


def choose_sizes(arguments: argparse.Namespace, device: torch.device) -> Sizes:
    """Return the requested sizes, and for others the defaults of model and device."""
    default = default_sizes(arguments.model, arguments.phase, gpu=device.type == "cuda")

    def pick(asked: int | None, fallback: int) -> int:
        return fallback if asked is None else asked

    return Sizes(
        pick(arguments.batch_size, default.batch_size),
        pick(arguments.image_size, default.image_size),
        pick(arguments.warmup, default.warmup),
        pick(arguments.windows, default.windows),
        pick(arguments.steps, default.steps_per_window),
    )


def choose_task(arguments: argparse.Namespace, sizes: Sizes) -> Task:
    """Return the task to train."""
    if arguments.model in bert.CONFIGS:
        return BertPretraining(arguments.model, arguments.phase, sizes.batch_size)
    return ImageClassification(
        arguments.model, sizes.batch_size, sizes.image_size, channels_last=arguments.channels_last
    )


def say(
    task: Task, model: str, place: places.Place, device: torch.device, mean: float, spread: float
) -> None:
    """Print the result as Horovod's synthetic benchmark does (rank 0's figures, as there)."""
    kind = "GPU" if device.type == "cuda" else "CPU"
    unit, total = ("Img/sec", "img/sec") if task.sample == "image" else ("Sequences/sec", "sequences/sec")
    print(f"Model: {model}\nBatch size: {task.batch_size}\nNumber of {kind}s: {place.world_size}")
    print(f"{unit} per {kind}: {mean:.1f} +-{spread:.1f}")
    sums = f"{place.world_size * mean:.1f} +-{place.world_size * spread:.1f}"
    print(f"Total {total} on {place.world_size} {kind}(s): {sums}", flush=True)


def run(arguments: argparse.Namespace, place: places.Place) -> int:
    """Train on this rank, emit its record, and return the exit status."""
    device = ranks.choose_device(place, arguments.device)
    backend: str = arguments.backend or ("nccl" if device.type == "cuda" else "gloo")
    sizes = choose_sizes(arguments, device)
    threads = ranks.use_own_cores(place) if device.type == "cpu" else torch.get_num_threads()
    # Printed before anything can hang, to distinguish a rank that never started from one that stopped.
    records.emit(
        "start", rank=place.rank, world_size=place.world_size, host=place.host, pid=os.getpid(),
        device=ranks.device_name(device), local_rank=place.local_rank, launcher=place.launcher,
    )  # fmt: skip
    shared = ranks.sharing(place, backend, device)
    together = None
    bound = binding.CpuBinding(0, "not bound: one rank alone")
    if place.world_size > 1:
        together = data_parallel.choose(arguments.api, backend, arguments.hook, arguments.bucket_cap_mb)
        before = frozenset(os.sched_getaffinity(0))
        together.join(place, device, arguments.timeout_s + 30.0)
        bound = binding.bind(place, device, together.gather, before=before)
    task = choose_task(arguments, sizes)
    ways = Ways(
        arguments.precision, arguments.compile, arguments.learning_rate, arguments.seed, arguments.data == "fresh",
    )  # fmt: skip
    trainer = Trainer(task, ways, place, device, together)
    package = together.usage_package if together is not None else ""
    used = usage.Usage(backend, joined=together is not None, package=package)
    used.skip()
    windows = Windows(sizes.warmup, sizes.windows, sizes.steps_per_window)

    def report(number: int, rate: float) -> None:
        """Print a window for those who watch; the results are those of the records at the end."""
        used.look()
        if place.rank == 0:
            records.emit(
                "window", rank=0, number=number, windows=windows.count, samples_per_s=rate, sample=task.sample
            )

    meter = energy.EnergyMeter(device)

    @contextmanager
    def warming_up() -> Iterator[None]:
        """Count the operations of the warm-up, and read the energy counter when it has ended."""
        yield
        used.look()
        meter.begin()

    found = measure(trainer, windows, report, warming_up)
    used.energy = meter.report(windows.count * windows.steps)
    last_loss = found.losses[-1]
    if not (math.isfinite(found.loss_first) and math.isfinite(last_loss)):
        records.emit("failure", rank=place.rank, host=place.host, reason="nan-loss", loss=str(last_loss))
        sys.stderr.write(f"rank {place.rank} on {place.host}: the loss is {last_loss}, not a finite number\n")
        sys.stderr.flush()
        return EXIT_NOT_FINITE
    mean = statistics.fmean(found.rates)
    spread = 1.96 * statistics.pstdev(found.rates)
    used.mechanisms = {**(together.uses if together is not None else {}), "cpu_binding": bound.cpus}
    # Before the steps that do not belong to the training.
    digest, usage_report = trainer.digest(), used.report()
    # A compiled model would be compiled again for steps without an exchange.
    apart = None if arguments.compile else steps_apart(trainer, sizes.steps_per_window)
    fields: dict[str, Any] = {
        "rank": place.rank,
        "world_size": place.world_size,
        "host": place.host,
        "pid": os.getpid(),
        "device": ranks.device_name(device),
        "sample": task.sample,
        "samples_per_s": found.rates,
        "samples_per_s_mean": mean,
        "samples_per_s_spread": spread,
        "loss_first": found.loss_first,
        "loss_last": last_loss,
        "losses": found.losses,
        "model": arguments.model,
        "parameters": trainer.parameters,
        "parameters_digest": digest,
        "step_s": apart and apart[0],
        "step_alone_s": apart and apart[1],
        "batch_size": task.batch_size,
        **task.settings(),
        **ways.settings(),
        **(together.settings() if together is not None else {}),
        "windows": sizes.windows,
        "steps": sizes.windows * sizes.steps_per_window,
        "threads": threads,
        "cpu_binding": bound.reason,
        "ranks_per_gpu": shared,
        "path": ranks.device_path(backend, device)
        if arguments.api == "ddp" and together is not None
        else None,
        "torch": torch.__version__,
        "usage": usage_report,
        "proof": together.proof() if together is not None else {"backend": "none"},
    }
    records.emit("rank", **fields)
    if place.rank == 0:
        say(task, arguments.model, place, device, mean, spread)
    if together is not None:
        together.leave()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the workload on this rank; return 3 for a loss that is not finite, 4 for a rank that cannot join."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: run(arguments, place), arguments.timeout_s)


if __name__ == "__main__":
    raise SystemExit(main())
