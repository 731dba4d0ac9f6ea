"""The APIs with which ranks train one model together: torch's DistributedDataParallel, or Horovod's."""

from __future__ import annotations

import ctypes
import importlib
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from clusterctl.workloads import foreign_library, places, rank_values, ranks
from clusterctl.workloads.exchange import TorchGather

APIS = ("ddp", "horovod")
HOOKS = ("none", "fp16")
"""Compressions that the program sets up itself; top-k is switched on by a variable of the library."""
BUCKET_CAP_MB = 25.0
"""DistributedDataParallel's default, set explicitly so that results include it."""
# Steps of each bucket size: untimed, timed.
_TUNING_STEPS = {"cuda": (3, 10), "cpu": (1, 2)}
_HOROVOD_MODULES = {"ccore": "collective_core.horovod.torch"}
_HOROVOD = "horovod.torch"
_TOPK = "CCORE_TOPK_ALLREDUCE"
_T = TypeVar("_T")


class DataParallel(Protocol):
    """Join the other ranks, and train one model with them."""

    hook: str
    """How gradients are compressed, known after ``distribute``: none, fp16 or topk."""
    usage_package: str
    """The part of collective_core that counts the operations, if it moves the data."""
    uses: dict[str, int]
    """How often each mechanism of this program was used."""

    def join(self, place: places.Place, device: torch.device, timeout_s: float) -> None:
        """Meet the other ranks; raise RankError if that is impossible."""

    def gather(self, value: object, read: Callable[[object], _T]) -> list[_T]:
        """Return the value of each rank, see :func:`rank_values.gather`."""

    def distribute(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, step: Callable[[nn.Module], object]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Return the model and the optimiser with which all ranks take the same steps; ``step`` trains one step."""

    def update(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        """Take a step of the optimiser with the gradients of all ranks."""

    def apart(self) -> AbstractContextManager[None] | None:
        """Return a context in which steps exchange no gradients; None if this API cannot do so."""

    def settings(self) -> dict[str, Any]:
        """Return what a result must say of this."""

    def proof(self) -> dict[str, Any]:
        """Return the library that moves the data: its version, and its files in this process."""

    def leave(self) -> None:
        """Wait for the other ranks and leave."""


def choose(api: str, backend: str, hook: str, buckets: float | str | None) -> DataParallel:
    """Return the API; raise RankError for a combination that does not exist."""
    if api == "horovod":
        return HorovodApi(backend, hook, buckets)
    return Ddp(backend, hook, buckets)


class Ddp:
    """torch's DistributedDataParallel over a backend of torch.distributed."""

    usage_package = "collective_core.torch"

    def __init__(self, backend: str, hook: str, buckets: float | str | None) -> None:
        self._backend, self._asked, self._buckets = backend, hook, buckets
        self._device = torch.device("cpu")
        self._tuned: str | None = None
        self._ddp: DistributedDataParallel | None = None
        self.hook = "none"
        self.uses: dict[str, int] = {}

    def join(self, place: places.Place, device: torch.device, timeout_s: float) -> None:
        """Initialise the process group."""
        self._device = device
        ranks.join(place, self._backend, device, timeout_s)

    def gather(self, value: object, read: Callable[[object], _T]) -> list[_T]:
        """Return the value of each rank."""
        return rank_values.gather(TorchGather(self._device), value, read)

    def distribute(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, step: Callable[[nn.Module], object]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Return the model in DDP, with buckets that were measured if ``auto`` is chosen."""
        options: dict[str, Any] = {
            "device_ids": [self._device.index] if self._device.type == "cuda" else None,
            "gradient_as_bucket_view": True,
        }
        if self._buckets != "auto":
            cap = BUCKET_CAP_MB if self._buckets is None else self._buckets
            self._ddp = self._hooked(DistributedDataParallel(model, bucket_cap_mb=cap, **options))
            return self._ddp, optimizer
        try:
            tuning = importlib.import_module("collective_core.bucket_tuning")
        except ImportError as error:
            raise places.RankError(
                f"--bucket-cap-mb auto needs collective_core, which {sys.executable} does not have: {error}"
            ) from None
        hooked: weakref.WeakSet[DistributedDataParallel] = weakref.WeakSet()

        def train(ddp: DistributedDataParallel) -> None:
            if ddp not in hooked:
                hooked.add(self._hooked(ddp))
            step(ddp)

        warmup, samples = _TUNING_STEPS[self._device.type]
        tuned = tuning.tuned_ddp(model, train, warmup=warmup, samples=samples, **options)
        times = ", ".join(f"{_cap(cap)}: {seconds:.4g} s" for cap, seconds in tuned.step_s.items())
        self._tuned = _cap(tuned.bucket_cap_mb) + (f" (step times: {times})" if times else "")
        # Only a comparison of several sizes is tuning.
        self.uses = {"bucket_tuning": len(tuned.step_s)} if len(tuned.step_s) > 1 else {}
        self._ddp = self._hooked(tuned.ddp)
        return self._ddp, optimizer

    def _hooked(self, ddp: DistributedDataParallel) -> DistributedDataParallel:
        """Register the chosen hook; without one, collective_core's variables may ask for top-k."""
        if self._asked == "fp16":
            self.hook = "fp16"
            ddp.register_comm_hook(None, self._counted(_fp16_hook(self._backend)))
        elif self._backend == "ccore":
            hooks = importlib.import_module("collective_core.ddp_hooks")
            self.hook = "topk" if hooks.from_environment(ddp) is not None else "none"
        return ddp

    def _counted(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        def count_and_compress(state: object, bucket: Any) -> Any:
            _count(self.uses, "fp16")
            return hook(state, bucket)

        # DDP would compare them with its own types.
        count_and_compress.__annotations__.clear()
        return count_and_compress

    def update(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        """Take a step; DDP has reduced the gradients in the backward pass."""
        scaler.step(optimizer)

    def apart(self) -> AbstractContextManager[None] | None:
        """Return DDP's own context for steps without an exchange."""
        return None if self._ddp is None else self._ddp.no_sync()

    def settings(self) -> dict[str, Any]:
        """Return the buckets, and with ``auto`` the size that was chosen and the step times of all sizes."""
        cap = BUCKET_CAP_MB if self._buckets is None else self._buckets
        return {"api": "ddp", "hook": self.hook, "bucket_cap_mb": cap, "tuned_buckets": self._tuned}

    def proof(self) -> dict[str, Any]:
        """Return the library of the process group."""
        return ranks.backend_proof(self._backend)

    def leave(self) -> None:
        """Wait for the other ranks, then destroy the process group."""
        dist.barrier()
        dist.destroy_process_group()
        if self._backend == "gloo":
            # torch frees Gloo while it holds the interpreter's lock and waits for threads that may need it. The process
            # ends now, so DDP and its group stay as they are.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._ddp))


def _count(uses: dict[str, int], name: str) -> None:
    uses[name] = uses.get(name, 0) + 1


def _cap(cap: float | None) -> str:
    """Return a bucket size as text; None is torch's default, 1 MiB for the first bucket and 25 MiB for the others."""
    return "default" if cap is None else f"{cap:g} MiB"


def _fp16_hook(backend: str) -> Callable[..., Any]:
    if backend == "ccore":
        found: Callable[..., Any] = importlib.import_module("collective_core.ddp_hooks").fp16_hook
        return found
    return default_hooks.fp16_compress_hook


class _HorovodGather:
    """Gather bytes over Horovod, see :class:`clusterctl.workloads.rank_values.ByteGather`."""

    def __init__(self, hvd: Any) -> None:
        self._hvd = hvd

    def sizes(self, own: int) -> list[int]:
        """Return the whole number of each rank."""
        found = self._hvd.allgather(torch.tensor([own], dtype=torch.int64), name="clusterctl.sizes")
        return [int(size) for size in found.tolist()]

    def parts(self, own: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank."""
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        joined = self._hvd.allgather(mine, name="clusterctl.parts")
        return [
            rank_values.bytes_at(part.data_ptr(), part.numel()) for part in torch.split(joined, list(sizes))
        ]


class HorovodApi:
    """Horovod's DistributedOptimizer: collective_core's, or that of a module with Horovod's name."""

    usage_package = "collective_core.horovod"

    def __init__(self, backend: str, hook: str, buckets: float | str | None) -> None:
        self._backend, self._asked, self._buckets = backend, hook, buckets
        self._name = _HOROVOD_MODULES.get(backend, _HOROVOD)
        self._hvd: Any = None
        self.hook = "none"
        self.uses: dict[str, int] = {}

    def join(self, place: places.Place, _device: torch.device, _timeout_s: float) -> None:
        """Initialise Horovod; raise RankError if the module is missing, or found other ranks than the launcher."""
        try:
            self._hvd = importlib.import_module(self._name)
        except ImportError as error:
            raise places.RankError(
                f"--api horovod with the library {self._backend} needs the module {self._name}, which "
                f"{sys.executable} cannot import: {error}"
            ) from None
        self._hvd.init()
        found = (self._hvd.rank(), self._hvd.size())
        if found != (place.rank, place.world_size):
            raise places.RankError(
                f"{self._name} is rank {found[0]} of {found[1]}, but {place.launcher} started rank {place.rank} "
                f"of {place.world_size}; build Horovod with the MPI that starts the ranks"
            )

    def gather(self, value: object, read: Callable[[object], _T]) -> list[_T]:
        """Return the value of each rank."""
        return rank_values.gather(_HorovodGather(self._hvd), value, read)

    def distribute(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, _step: Callable[[nn.Module], object]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Return the model with rank 0's parameters, and the distributed optimiser."""
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        compression = self._hvd.Compression.none
        if self._asked == "fp16":
            self.hook = "fp16"
            compression = self._counted(self._hvd.Compression.fp16)
        made = self._hvd.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters(), compression=compression
        )
        if self._backend == "ccore":
            environment = importlib.import_module("collective_core.environment")
            if environment.flag(_TOPK, fallback=False):
                self.hook = "topk" if self.hook == "none" else f"{self.hook}+topk"
        return model, made

    def _counted(self, compression: Any) -> Any:
        uses = self.uses

        class Counted(compression):  # type: ignore[misc]
            @staticmethod
            def compress(tensor: torch.Tensor) -> Any:
                _count(uses, "fp16")
                return compression.compress(tensor)

        return Counted

    def update(self, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        """Take a step; a scaler must see the reduced gradients, so they are awaited before it."""
        if not scaler.is_enabled():
            scaler.step(optimizer)
            return
        made: Any = optimizer
        made.synchronize()
        with made.skip_synchronize():
            scaler.step(optimizer)

    def apart(self) -> AbstractContextManager[None] | None:
        """Return None: the optimiser exchanges gradients in the backward pass of every step."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return the API, and the buckets if the command line chose them."""
        return {"api": "horovod", "hook": self.hook, "bucket_cap_mb": self._buckets}

    def proof(self) -> dict[str, Any]:
        """Return the module's version and the libraries in this process."""
        if self._backend == "ccore":
            return ranks.backend_proof(self._backend)
        package: ModuleType = sys.modules[self._name.partition(".")[0]]
        return {
            "backend": self._backend,
            "version": str(getattr(package, "__version__", "unknown")),
            "libraries": (
                *filter(None, (package.__file__,)),
                *ranks.loaded_libraries(("mpi_lib", "libnccl", "libhorovod", "liblightcc")),
            ),
            **foreign_library.proof(),
        }

    def leave(self) -> None:
        """Wait for the other ranks, then leave Horovod."""
        self._hvd.allreduce(torch.zeros(1), name="clusterctl.end")
        self._hvd.shutdown()
