"""Choose a rank's device, and join torch's process group."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from clusterctl.text.visible import one_line
from clusterctl.workloads import foreign_library, shared_gpu
from clusterctl.workloads.places import Place, RankError
from clusterctl.workloads.rank_values import DEVICE_CHARACTERS, PATH_CHARACTERS


def choose_device(place: Place, wanted: str) -> torch.device:
    """Return this rank's device (``auto``: its GPU if there is one); raise RankError if the node has too few GPUs.

    With ``--oversubscribe`` ranks take the GPUs round-robin.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if place.local_rank >= count and not shared_gpu.allowed(os.environ):
        raise RankError(
            f"rank {place.rank} needs GPU {place.local_rank}, but {place.host} has {count} GPU(s); "
            "clusterctl bench --oversubscribe lets ranks share GPUs"
        )
    device = torch.device("cuda", place.local_rank % count)
    torch.cuda.set_device(device)
    return device


def device_name(device: torch.device) -> str:
    """Return a device's product name."""
    if device.type == "cuda":
        return one_line(f"cuda:{device.index} {torch.cuda.get_device_name(device)}", DEVICE_CHARACTERS)
    return "cpu"


def uuid_of(device: torch.device) -> str | None:
    """Return the UUID of a GPU as NVIDIA writes it; None if this torch does not report it."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return None if uuid is None else f"GPU-{uuid}"


def use_own_cores(place: Place) -> int:
    """Set torch to OMP_NUM_THREADS threads, else to this rank's share of the node's cores; return their number."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    share = len(os.sched_getaffinity(0)) // place.local_size
    threads = int(asked) if asked.isdigit() and int(asked) > 0 else max(1, share)
    torch.set_num_threads(threads)
    return threads


def sharing(place: Place, backend: str, device: torch.device) -> str | None:
    """Prepare this rank to share its GPU, and return how in words; None if each rank has a GPU of its own.

    Called before :func:`join`, because NCCL reads its settings when it starts.
    """
    if device.type != "cuda" or not shared_gpu.allowed(os.environ):
        return None
    gpus = torch.cuda.device_count()
    per_gpu = shared_gpu.ranks_per_gpu(place.local_size, gpus)
    if per_gpu < 2:
        return None
    way = shared_gpu.way_to_share(device.index or 0)
    said = f"{per_gpu}, {way}" if way else str(per_gpu)
    if backend != "nccl":
        return said
    how = shared_gpu.prepare_nccl(
        shared_gpu.nccl_version(shared_gpu.loaded_nccl()),
        host=place.host, local_rank=place.local_rank, gpus=gpus, per_gpu=per_gpu,
    )  # fmt: skip
    return f"{said} ({how})"


def device_path(backend: str, device: torch.device) -> str | None:
    """Return how collective_core moves this rank's CUDA tensors; None for other backends and for CPUs."""
    if backend != "ccore" or device.type != "cuda":
        return None
    describe = getattr(importlib.import_module("collective_core.torch"), "describe", None)
    if describe is None:  # an older collective_core
        return None
    return path_in_words(describe())


def moves_by_kernels_alone() -> bool:
    """Return whether collective_core moves CUDA tensors by kernels alone, which a CUDA graph can capture."""
    describe = getattr(importlib.import_module("collective_core.torch"), "describe", None)
    described: Mapping[str, str] = {} if describe is None else describe()  # an older collective_core
    return described.get("cuda_path") == "kernel" and described.get("between_nodes") == "one node"


def path_in_words(described: Mapping[str, str]) -> str:
    """Return in one line how a process group of collective_core, which it describes, moves CUDA tensors."""
    path = f"{described['cuda_path']}: {described['cuda']}"
    between = described.get("between_nodes", "one node")  # an older collective_core has no such entry
    words = path if between == "one node" else f"{path}; between nodes {between}"
    return one_line(words, PATH_CHARACTERS)


def join(place: Place, backend: str, device: torch.device, timeout_s: float) -> None:
    """Initialise the process group; raise RankError if MASTER_ADDR is unset or the backend is not installed."""
    if place.world_size == 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "0")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise RankError(f"{' and '.join(missing)} must be set with more than one rank")
    if backend == "ccore":
        try:
            importlib.import_module("collective_core.torch_backend")
        except ImportError as error:
            raise RankError(f"the backend ccore needs collective_core: {error}") from None
    try:
        foreign_library.load()
    except foreign_library.ForeignLibraryError as error:
        raise RankError(str(error)) from None
    if backend == "nccl" and device.type != "cuda":
        raise RankError("the backend nccl needs GPUs; use gloo or ccore")
    options: dict[str, Any] = {"device_id": device} if backend == "nccl" else {}
    dist.init_process_group(
        backend,
        rank=place.rank,
        world_size=place.world_size,
        timeout=timedelta(seconds=timeout_s),
        **options,
    )


def loaded_libraries(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths of the shared libraries mapped into this process whose names hold one of ``names``."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    return tuple(sorted(path for path in paths if any(name in Path(path).name for name in names)))


def _nccl_version() -> str:
    """Return the version of the NCCL in this process, which a preloaded library may have replaced."""
    loaded = shared_gpu.nccl_version(shared_gpu.loaded_nccl())
    if loaded is not None:
        return f"{loaded // 10000}.{loaded // 100 % 100}.{loaded % 100}"
    built: tuple[int, ...] = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    return ".".join(str(part) for part in built)


def backend_proof(backend: str) -> dict[str, Any]:
    """Return the collective library that this process really uses: its version and the files mapped into memory."""
    proof: dict[str, Any] = {"backend": dist.get_backend() if dist.is_initialized() else backend}
    if backend == "nccl":
        proof["version"] = _nccl_version()
        proof["libraries"] = loaded_libraries(("libnccl", "libtorch_cuda.so", "libcollective_core"))
    elif backend == "ccore":
        proof["version"] = str(getattr(sys.modules.get("collective_core"), "__version__", "unknown"))
        proof["libraries"] = loaded_libraries(("libcollective_core",))
    else:
        proof["version"] = f"torch {torch.__version__}"
        proof["libraries"] = loaded_libraries(("libtorch_cpu",))
    return {**proof, **foreign_library.proof()}
