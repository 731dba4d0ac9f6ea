"""Let several ranks share a GPU: which GPU a rank takes, and what NCCL needs for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

SHARE_GPUS = "CLUSTERCTL_SHARE_GPUS"
"""The variable by which a launch allows ranks to share GPUs (bench --oversubscribe)."""
TIME_SLICES = "in time slices, without MPS"
"""How ranks share a GPU if they take turns on it; a report says so first."""
_MPS_ENABLED = 133
"""CU_DEVICE_ATTRIBUTE_MPS_ENABLED, of CUDA 12."""
# From this version on NCCL has a setting for it; earlier ones refuse two ranks on a GPU of one host.
_SETTING_SINCE = 23003
_SETTING = "NCCL_MULTI_RANK_GPU_ENABLE"
# From this many ranks per GPU NCCL's documentation limits its blocks, so that the kernels of all ranks fit.
_LIMITED_FROM = 4
_MOST_BLOCKS = "16"


def allowed(environ: Mapping[str, str]) -> bool:
    """Tell whether the launch lets ranks share GPUs."""
    return environ.get(SHARE_GPUS) == "1"


def ranks_per_gpu(local_size: int, gpus: int) -> int:
    """Return the largest number of ranks on one GPU of this node."""
    return -(-local_size // max(1, gpus))


def way_to_share(gpu: int, library: str = "libcuda.so.1") -> str | None:
    """Return in words how processes share a GPU, by its CUDA ordinal; None if the driver does not report it."""
    enabled = ctypes.c_int()
    try:
        cuda = ctypes.CDLL(library)
        if cuda.cuInit(0) or cuda.cuDeviceGetAttribute(ctypes.byref(enabled), _MPS_ENABLED, gpu):
            return None
    except (OSError, AttributeError):
        return None
    return "at the same time, with MPS" if enabled.value else TIME_SLICES


def loaded_nccl() -> str | None:
    """Return the path of the libnccl in this process; None before it is loaded."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[-1] for line in lines if "/" in line)
    return next((path for path in paths if Path(path).name.startswith("libnccl.so")), None)


def nccl_version(path: str | None) -> int | None:
    """Return the version that this libnccl reports, such as 22809 for 2.28.9; None if it cannot be asked."""
    if path is None:
        return None
    number = ctypes.c_int()
    try:
        code = ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    return number.value if code == 0 else None


def prepare_nccl(version: int | None, *, host: str, local_rank: int, gpus: int, per_gpu: int) -> str:
    """Set what this NCCL needs for ranks that share a GPU, before its first communicator; return it in words.

    An NCCL without a setting accepts them if each claims a host of its own; their data then takes NCCL's network path.
    """
    if version is not None and version >= _SETTING_SINCE:
        os.environ.setdefault(_SETTING, "1")
        if per_gpu >= _LIMITED_FROM:
            os.environ.setdefault("NCCL_MAX_CTAS", _MOST_BLOCKS)
        return f"{_SETTING}={os.environ[_SETTING]}"
    os.environ.setdefault("NCCL_HOSTID", f"{host}-{local_rank // max(1, gpus)}")
    return "NCCL_HOSTID differs, so NCCL treats them as separate nodes"
