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
from typing import Any

import torch
import torch.distributed as dist

from clusterctl.workloads import bert, entry, ranks, records, torchvision_models, usage
from clusterctl.workloads.bert_task import PHASES, BertPretraining
from clusterctl.workloads.image_task import ImageClassification
from clusterctl.workloads.models import MODELS
from clusterctl.workloads.trainer import BUCKET_CAP_MB, PRECISIONS, Task, Trainer, Ways, Windows, measure
from clusterctl.workloads.training_sizes import Sizes, default_sizes

EXIT_NOT_FINITE = 3


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; defaults of sizes depend on the model and the device."""
    parser = argparse.ArgumentParser(prog="training")
    names = sorted({*MODELS, *bert.CONFIGS, *torchvision_models.NAMES})
    parser.add_argument("--model", choices=names, default="resnet50", metavar="NAME")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore"), default=None)
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
        "--bucket-cap-mb", type=float, default=BUCKET_CAP_MB, help="size of DDP's gradient buckets"
    )
    parser.add_argument(
        "--data", choices=("fixed", "fresh"), default="fixed", help="one batch, or one per step"
    )
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--timeout-s", type=float, default=600.0, help="deadline of the whole run")
    return parser.parse_args(argv)


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


def say(task: Task, model: str, place: ranks.Place, device: torch.device, mean: float, spread: float) -> None:
    """Print the result as Horovod's synthetic benchmark does (rank 0's figures, as there)."""
    kind = "GPU" if device.type == "cuda" else "CPU"
    unit, total = ("Img/sec", "img/sec") if task.sample == "image" else ("Sequences/sec", "sequences/sec")
    print(f"Model: {model}\nBatch size: {task.batch_size}\nNumber of {kind}s: {place.world_size}")
    print(f"{unit} per {kind}: {mean:.1f} +-{spread:.1f}")
    sums = f"{place.world_size * mean:.1f} +-{place.world_size * spread:.1f}"
    print(f"Total {total} on {place.world_size} {kind}(s): {sums}", flush=True)


def run(arguments: argparse.Namespace, place: ranks.Place) -> int:
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
    if place.world_size > 1:
        ranks.join(place, backend, device, arguments.timeout_s + 30.0)
    task = choose_task(arguments, sizes)
    ways = Ways(
        arguments.precision, arguments.compile, arguments.bucket_cap_mb, arguments.learning_rate,
        arguments.seed, arguments.data == "fresh",
    )  # fmt: skip
    trainer = Trainer(task, ways, place, device)
    used = usage.Usage(backend, joined=place.world_size > 1)
    windows = Windows(sizes.warmup, sizes.windows, sizes.steps_per_window)

    def report(number: int, rate: float) -> None:
        """Print a window for those who watch; the results are those of the records at the end."""
        used.look()
        if place.rank == 0:
            records.emit(
                "window", rank=0, number=number, windows=windows.count, samples_per_s=rate, sample=task.sample
            )

    rates, first_loss, last_loss = measure(trainer, windows, report)
    if not (math.isfinite(first_loss) and math.isfinite(last_loss)):
        records.emit("failure", rank=place.rank, host=place.host, reason="nan-loss", loss=str(last_loss))
        sys.stderr.write(f"rank {place.rank} on {place.host}: the loss is {last_loss}, not a finite number\n")
        sys.stderr.flush()
        return EXIT_NOT_FINITE
    mean = statistics.fmean(rates)
    spread = 1.96 * statistics.pstdev(rates)
    fields: dict[str, Any] = {
        "rank": place.rank,
        "world_size": place.world_size,
        "host": place.host,
        "pid": os.getpid(),
        "device": ranks.device_name(device),
        "sample": task.sample,
        "samples_per_s": rates,
        "samples_per_s_mean": mean,
        "samples_per_s_spread": spread,
        "loss_first": first_loss,
        "loss_last": last_loss,
        "model": arguments.model,
        "parameters": trainer.parameters,
        "parameters_digest": trainer.digest(),
        "batch_size": task.batch_size,
        **task.settings(),
        **ways.settings(),
        "windows": sizes.windows,
        "steps": sizes.windows * sizes.steps_per_window,
        "threads": threads,
        "ranks_per_gpu": shared,
        "path": ranks.device_path(backend, device) if place.world_size > 1 else None,
        "torch": torch.__version__,
        "usage": used.report(),
        "proof": ranks.backend_proof(backend) if place.world_size > 1 else {"backend": "none"},
    }
    records.emit("rank", **fields)
    if place.rank == 0:
        say(task, arguments.model, place, device, mean, spread)
    if place.world_size > 1:
        dist.barrier()
        dist.destroy_process_group()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the workload on this rank; return 3 for a loss that is not finite, 4 for a rank that cannot join."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: run(arguments, place), arguments.timeout_s)


if __name__ == "__main__":
    raise SystemExit(main())
