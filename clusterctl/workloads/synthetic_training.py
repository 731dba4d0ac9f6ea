"""A synthetic training run: an image classifier, data made in memory, SGD, DDP, images per second per rank.

The measurement follows Horovod's synthetic benchmark (warm-up, then windows of steps; mean and 1.96 sigma),
and its two result lines are printed as well, because many scripts read them.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from clusterctl.workloads import ranks, records
from clusterctl.workloads.models import MODELS, parameter_count

EXIT_NOT_FINITE = 3
EXIT_NO_PLACE = 4


@dataclass(frozen=True)
class Sizes:
    """How much is computed: images per rank and step, their side in pixels, and how many steps are timed."""

    batch_size: int
    image_size: int
    warmup: int
    windows: int
    steps_per_window: int


# On GPUs Horovod's defaults; on CPUs what ends within a minute on two cores.
GPU_SIZES = Sizes(batch_size=64, image_size=224, warmup=10, windows=10, steps_per_window=10)
CPU_SIZES = Sizes(batch_size=8, image_size=64, warmup=1, windows=4, steps_per_window=2)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Read the command line; sizes left out are chosen by the device."""
    parser = argparse.ArgumentParser(prog="training")
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet50")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore"), default=None)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--batch-size", type=int, default=None, help="images per rank and step")
    parser.add_argument("--image-size", type=int, default=None, help="pixels per side")
    parser.add_argument("--warmup", type=int, default=None, help="steps before the clock starts")
    parser.add_argument("--windows", type=int, default=None, help="timed windows")
    parser.add_argument("--steps", type=int, default=None, help="steps per window")
    parser.add_argument("--precision", choices=("fp32", "tf32", "amp-bf16"), default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument(
        "--data", choices=("fixed", "fresh"), default="fixed", help="one batch, or one per step"
    )
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--timeout-s", type=float, default=600.0, help="for the whole run")
    return parser.parse_args(argv)


def choose_sizes(arguments: argparse.Namespace, device: torch.device) -> Sizes:
    """Return the sizes asked for, with the device's defaults where none was."""
    default = GPU_SIZES if device.type == "cuda" else CPU_SIZES

    def pick(asked: int | None, fallback: int) -> int:
        return fallback if asked is None else asked

    return Sizes(
        pick(arguments.batch_size, default.batch_size),
        pick(arguments.image_size, default.image_size),
        pick(arguments.warmup, default.warmup),
        pick(arguments.windows, default.windows),
        pick(arguments.steps, default.steps_per_window),
    )


class Trainer:
    """A model, its optimiser and its data on one rank; ``step`` makes one optimisation step."""

    def __init__(
        self, arguments: argparse.Namespace, place: ranks.Place, device: torch.device, sizes: Sizes
    ) -> None:
        torch.manual_seed(arguments.seed)
        self.device = device
        self.precision: str = arguments.precision
        torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = self.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        memory = torch.channels_last if arguments.channels_last else torch.contiguous_format
        model = MODELS[arguments.model]().to(device)
        model = model.to(memory_format=memory)  # type: ignore[call-overload]
        self.parameters = parameter_count(model)
        self.model: nn.Module = model
        if place.world_size > 1:
            self.model = DistributedDataParallel(
                model,
                device_ids=[device.index] if device.type == "cuda" else None,
                gradient_as_bucket_view=True,
            )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=arguments.learning_rate)
        # Every rank has data of its own, as in training; the model's seed is the same everywhere.
        self.generator = torch.Generator(device=device).manual_seed(arguments.seed + 1 + place.rank)
        self.memory = memory
        self.sizes = sizes
        self.fresh: bool = arguments.data == "fresh"
        self.images, self.labels = self._batch()

    def _batch(self) -> tuple[Tensor, Tensor]:
        side, count = self.sizes.image_size, self.sizes.batch_size
        images = torch.randn(count, 3, side, side, device=self.device, generator=self.generator)
        labels = torch.randint(0, 1000, (count,), device=self.device, generator=self.generator)
        return images.contiguous(memory_format=self.memory), labels

    def step(self) -> Tensor:
        """Make one step and return its loss, still on the device."""
        if self.fresh:
            self.images, self.labels = self._batch()
        self.optimizer.zero_grad(set_to_none=True)
        half = self.precision == "amp-bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def digest(self) -> str:
        """Return a figure that is equal on two ranks when their parameters are equal bit for bit."""
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for index, parameter in enumerate(self.model.parameters()):
            total += parameter.detach().double().abs().sum() * (1.0 + 1e-3 * index)
        return float(total).hex()


def measure(trainer: Trainer, sizes: Sizes) -> tuple[list[float], float, float]:
    """Warm up, then return images per second of each timed window, the first loss and the last."""

    def settle() -> None:
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)

    first = trainer.step()
    for _ in range(max(0, sizes.warmup - 1)):
        trainer.step()
    first_loss = float(first)
    rates: list[float] = []
    last_loss = first_loss
    for _ in range(sizes.windows):
        settle()
        started = time.perf_counter()
        last = first
        for _ in range(sizes.steps_per_window):
            last = trainer.step()
        settle()
        rates.append(sizes.batch_size * sizes.steps_per_window / (time.perf_counter() - started))
        last_loss = float(last)
        if not math.isfinite(last_loss):
            break
    return rates, first_loss, last_loss


def run(arguments: argparse.Namespace, place: ranks.Place) -> int:
    """Train on this rank, emit its record, and return the exit status."""
    device = ranks.choose_device(place, arguments.device)
    backend: str = arguments.backend or ("nccl" if device.type == "cuda" else "gloo")
    sizes = choose_sizes(arguments, device)
    threads = ranks.use_own_cores(place) if device.type == "cpu" else torch.get_num_threads()
    # Announced before anything can hang, so that a rank that never came can be told from one that stopped.
    records.emit(
        "start", rank=place.rank, world_size=place.world_size, host=place.host, pid=os.getpid(),
        device=ranks.device_name(device), local_rank=place.local_rank, launcher=place.launcher,
    )  # fmt: skip
    if place.world_size > 1:
        ranks.join(place, backend, device, arguments.timeout_s + 30.0)
    trainer = Trainer(arguments, place, device, sizes)
    rates, first_loss, last_loss = measure(trainer, sizes)
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
        "samples_per_s": rates,
        "samples_per_s_mean": mean,
        "samples_per_s_spread": spread,
        "sample": "image",
        "loss_first": first_loss,
        "loss_last": last_loss,
        "model": arguments.model,
        "parameters": trainer.parameters,
        "parameters_digest": trainer.digest(),
        "precision": arguments.precision,
        "channels_last": arguments.channels_last,
        "batch_size": sizes.batch_size,
        "image_size": sizes.image_size,
        "steps": sizes.windows * sizes.steps_per_window,
        "threads": threads,
        "torch": torch.__version__,
        "proof": ranks.backend_proof(backend) if place.world_size > 1 else {"backend": "none"},
    }
    records.emit("rank", **fields)
    if place.rank == 0:
        kind = "GPU" if device.type == "cuda" else "CPU"
        print(f"Model: {arguments.model}\nBatch size: {sizes.batch_size}")
        print(f"Number of {kind}s: {place.world_size}")
        print(f"Img/sec per {kind}: {mean:.1f} +-{spread:.1f}")
        total, total_spread = place.world_size * mean, place.world_size * spread
        print(f"Total img/sec on {place.world_size} {kind}(s): {total:.1f} +-{total_spread:.1f}", flush=True)
    if place.world_size > 1:
        dist.barrier()
        dist.destroy_process_group()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the workload on this rank; exit status 3 is a loss that is not finite, 4 a rank without a place."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    faulthandler.enable()
    # Just before whoever started this gives up: where a rank hangs is then in its log.
    faulthandler.dump_traceback_later(0.9 * arguments.timeout_s)
    try:
        status = run(arguments, ranks.read_place(os.environ))
    except ranks.RankError as error:
        sys.stderr.write(f"{socket.gethostname()}: {error}\n")
        status = EXIT_NO_PLACE
    finally:
        faulthandler.cancel_dump_traceback_later()
    if status != 0:
        # The other ranks may wait inside a collective; no destructor of the process group may wait with them.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
