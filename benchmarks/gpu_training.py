"""Training through ccore against NCCL on the GPUs of this machine: nccl, ccore, nccl+ccore and gloo, interleaved.

Each repeat starts the ranks once per model and library. The models are ResNet50 (bf16, channels last) and BERT-Large
(bf16, phase 1) by DistributedDataParallel, and a small LLaMA (bf16) by FSDP2, all on synthetic data. A launch times
windows of steps after a warm-up, on its slowest rank. The table has medians over launches of samples per second of all
ranks, with the slowest and the fastest launch in brackets, and the ratio of ccore's to NCCL's. The losses after the
warm-up must differ from NCCL's by at most 1 in 100: libraries add in different orders. Later losses of the LLaMA differ
between two launches of NCCL, too. The batches keep an H200 busy: with smaller ones, the host sets the pace.

The ranks share one GPU under an MPS server of this script, or have a GPU each, if there are enough. NCCL before 2.30
refuses ranks that share a GPU unless each claims a host of its own, so its data then takes sockets. A launch that does
not end within two minutes is ended and reported, and its model counts as missed.

    python benchmarks/gpu_training.py [--ranks 2] [--models resnet50,bert-large,llama] [--variants nccl,ccore,...]
                                      [--repeats 3] [--no-mps] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import gpu_ranks  # noqa: E402

MODELS = ("resnet50", "bert-large", "llama")
VARIANTS = ("nccl", "ccore", "nccl+ccore", "gloo")
# Steps before the clock starts, windows, and steps of each window; with --quick.
LENGTH, QUICK_LENGTH = (4, 3, 8), (2, 2, 3)
LIMIT_S = 120
LOSSES_DIFFER_BY = 0.01
# ccore over NCCL: in each model, and in at least one.
LEAST, LEAST_IN_ONE = 1.0, 1.03


def task_of(name: str, *, quick: bool) -> Any:
    """Return what is trained."""
    from clusterctl.workloads.bert_task import BertPretraining
    from clusterctl.workloads.image_task import ImageClassification
    from clusterctl.workloads.llama import LlamaPretraining

    if name == "resnet50":
        return ImageClassification("resnet50", 32 if quick else 256, 224, channels_last=True)
    if name == "bert-large":
        return BertPretraining("bert-large", 1, 8 if quick else 128)
    return LlamaPretraining("llama-1b", 1 if quick else 8, 512 if quick else 1024)


def distributed(name: str, task: Any, device: Any) -> Any:
    """Return the model of a task, which the ranks train together."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    model: Any = task.build(device)
    if name == "llama":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        return model
    return DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)


def rank_main(name: str, variant: str, *, quick: bool) -> None:
    """Train in this rank; rank 0 prints JSON: samples per second of each window, and the loss after the warm-up."""
    if variant == "ccore":
        import collective_core.torch_backend  # noqa: F401  # registers ccore
    import torch
    import torch.distributed as dist

    rank, size, device = gpu_ranks.device_of_rank(uses_nccl=variant.startswith("nccl"))
    dist.init_process_group(variant.partition("+")[0])
    torch.manual_seed(20)
    torch.backends.cudnn.benchmark = True
    task = task_of(name, quick=quick)
    model = distributed(name, task, device)
    optimizer = task.optimizer(model, task.learning_rate, device)
    data = task.batch(torch.Generator(device=device).manual_seed(21 + rank), device)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=name != "llama"):
            loss = task.loss(model, data)
        loss.backward()
        optimizer.step()
        return loss.detach()

    warm_up, windows, steps = QUICK_LENGTH if quick else LENGTH
    for _ in range(warm_up):
        loss = step()
    rates = []
    took = torch.zeros(2, device=device, dtype=torch.float64)
    for _ in range(windows):
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        took = torch.tensor([time.perf_counter() - begin, float(loss)], device=device, dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        rates.append(size * task.batch_size * steps / float(took[0]))
    if rank == 0:
        machine = gpu_ranks.machine(device, size)
        print(json.dumps({"machine": machine, "rates": rates, "loss": float(took[1])}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def launch(
    ranks: int, model: str, variant: str, *, quick: bool, variables: dict[str, str]
) -> dict[str, Any] | None:
    """Return what rank 0 printed; None if the ranks did not end in time. SystemExit if a rank failed."""
    words = ("--models", model, "--rank-of", variant, *(["--quick"] if quick else []))
    before_nccl = variant == "nccl+ccore"
    try:
        return gpu_ranks.answer_of(words, ranks, variables, before_nccl=before_nccl, limit_s=LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"{model} with {variant}: the ranks did not end within {LIMIT_S} s", flush=True)
        return None


def print_row(model: str, launches: dict[str, list[dict[str, Any]]]) -> float:
    """Print the row of a model; return ccore over NCCL, or NaN. SystemExit if the losses differ."""
    medians: dict[str, float] = {}
    row = f"{model:>11}"
    for variant, some in launches.items():
        rates = [statistics.median(one["rates"]) for one in some]
        medians[variant] = statistics.median(rates)
        row += f"{f'{medians[variant]:.1f} [{min(rates):.1f}, {max(rates):.1f}]':>28}"
    ratio = medians.get("ccore", math.nan) / medians.get("nccl", math.nan)
    losses = {variant: some[0]["loss"] for variant, some in launches.items()}
    print(f"{row}{ratio:>11.3f}   losses {', '.join(f'{loss:.4f}' for loss in losses.values())}", flush=True)
    reference = next(iter(losses.values()))
    if not all(abs(loss - reference) <= LOSSES_DIFFER_BY * abs(reference) for loss in losses.values()):
        raise SystemExit(f"{model}: the losses differ: {losses}")
    return ratio


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--variants", help="default: all; with --quick nccl and ccore")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-mps", action="store_true", help="let ranks that share a GPU take turns")
    parser.add_argument("--quick", action="store_true", help="small batches, few steps, one repeat")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        rank_main(options.models, options.rank_of, quick=options.quick)
        return
    from mps_server import NOT_STARTED, mps_server

    chosen = options.variants or ",".join(VARIANTS[:2] if options.quick else VARIANTS)
    variants = chosen.split(",")
    repeats = 1 if options.quick else options.repeats
    ratios: list[float] = []
    with contextlib.nullcontext({}) if options.no_mps else mps_server() as variables:
        if variables is None:
            raise SystemExit(NOT_STARTED)
        for model in options.models.split(","):
            launches: dict[str, list[dict[str, Any]]] = {variant: [] for variant in variants}
            for _ in range(repeats):
                for variant, some in launches.items():
                    found = launch(options.ranks, model, variant, quick=options.quick, variables=variables)
                    some.extend([found] if found else [])
            if not all(launches.values()):
                ratios.append(0.0)
                continue
            if not any(ratios):
                machine = launches[variants[0]][0]["machine"]
                print(
                    f"{machine['gpus']} x {machine['gpu']}, {options.ranks} ranks"
                    f"{'' if options.no_mps else ', MPS'}, torch {machine['torch']}, NCCL {machine['nccl']}, samples/s"
                    f"\n{'model':>11}" + "".join(f"{variant:>28}" for variant in variants) + " ccore/nccl"
                )
            ratios.append(print_row(model, launches))
    if not any(map(math.isnan, ratios)):
        met = min(ratios) >= LEAST and max(ratios) >= LEAST_IN_ONE
        print(
            f"{'met ' if met else 'MISS'} ccore over nccl {', '.join(f'{ratio:.3f}' for ratio in ratios)}; "
            f"goal >= {LEAST:g} in each, >= {LEAST_IN_ONE:g} in one"
        )


if __name__ == "__main__":
    main()
