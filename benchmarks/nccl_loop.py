"""The rival of the torch program on one machine's GPUs: NCCL called in the plainest C loop, as nccl-tests calls it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).resolve().parent / "programs" / "all_reduce_nccl.c"
_DEADLINE_S = 100.0


class Unavailable(Exception):
    """Why the loop could not be built or run here."""


def _nccl() -> Path:
    found = importlib.util.find_spec("nvidia.nccl")
    if found is None or not found.submodule_search_locations:
        raise Unavailable("no wheel of NCCL (nvidia-nccl-cu13) with its header")
    return Path(found.submodule_search_locations[0])


def _call(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        raise Unavailable(f"{command[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def in_place_us(ranks: int, first: int, last: int) -> dict[int, float]:
    """Return the microseconds of one all_reduce in place, fp32 sum, by size (bytes, in steps of 2)."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise Unavailable("no nvcc, whose folder has the headers of CUDA")
    cuda, nccl = Path(nvcc).resolve().parents[1], _nccl()
    with tempfile.TemporaryDirectory(prefix="nccl-loop-") as folder:
        program = str(Path(folder) / "all_reduce_nccl")
        libraries = [f"-L{cuda}/lib64", "-lcudart", str(nccl / "lib" / "libnccl.so.2")]
        paths = [f"-I{nccl}/include", f"-I{cuda}/include", f"-Wl,-rpath,{nccl}/lib:{cuda}/lib64"]
        _call(["cc", "-O2", str(_SOURCE), "-o", program, *paths, *libraries])
        printed = _call([program, str(ranks), str(first), str(last)])
    rows = (line.split() for line in printed.splitlines())
    return {int(size): float(in_place) for size, _, in_place in rows}
