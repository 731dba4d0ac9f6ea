"""Ranks of torch on the GPUs of this machine, for scripts that start themselves again as each rank."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from free_ports import free_port


def device_of_rank(*, uses_nccl: bool) -> tuple[int, int, Any]:
    """Return this rank, the number of ranks and the rank's GPU, which is torch's current device from now on.

    NCCL is prepared for ranks that share a GPU, if this rank ``uses_nccl``.
    """
    import torch

    from clusterctl.workloads import shared_gpu

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", rank % gpus)
    torch.cuda.set_device(device)
    if size > gpus and uses_nccl:
        shared_gpu.prepare_nccl(
            shared_gpu.nccl_version(shared_gpu.loaded_nccl()),
            host="gpu", local_rank=rank, gpus=1, per_gpu=-(-size // gpus),
        )  # fmt: skip
    return rank, size, device


def machine(device: Any, size: int) -> dict[str, Any]:
    """Return what a table says of the machine of ``size`` ranks."""
    import torch

    return {
        "gpu": torch.cuda.get_device_name(device),
        "gpus": min(torch.cuda.device_count(), size),
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),  # type: ignore[no-untyped-call]
    }


def answer_of(
    words: Sequence[str], ranks: int, variables: Mapping[str, str], *, before_nccl: bool, limit_s: float
) -> dict[str, Any]:
    """Start this script as ``ranks`` ranks with these words, and return the JSON of rank 0's last line.

    ``before_nccl``: with collective_core in front of NCCL. Raise subprocess.TimeoutExpired if a rank does not end
    within ``limit_s``, SystemExit if one failed.
    """
    from collective_core import locations

    library = str(locations.library_path().with_name("libcollective_core_nccl.so"))
    preloaded = {"LD_PRELOAD": ":".join(filter(None, (library, os.environ.get("LD_PRELOAD"))))}
    shared = {
        **os.environ,
        **variables,
        **(preloaded if before_nccl else {}),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(ranks),
    }
    with contextlib.ExitStack() as ending:
        processes = []
        for rank in range(ranks):
            process = subprocess.Popen(
                (sys.executable, sys.argv[0], *words),
                env={**shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            ending.callback(process.kill)
            processes.append(process)
        end = time.monotonic() + limit_s
        outputs = [process.communicate(timeout=end - time.monotonic())[0] for process in processes]
    if codes := [process.returncode for process in processes if process.returncode]:
        raise SystemExit(f"{' '.join(words)}: ranks ended with {codes}")
    found: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    return found
