"""The MPS server of CUDA, for a benchmark that lets processes share a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def mps() -> Iterator[dict[str, str] | None]:
    """Yield the variables of an MPS server, or None if none can be started.

    A server that CUDA_MPS_PIPE_DIRECTORY names is used. Else a server of this block's own is started, and ended.
    """
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield {}
        return
    control = shutil.which("nvidia-cuda-mps-control")
    with tempfile.TemporaryDirectory(prefix="mps-") as directory:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": directory, "CUDA_MPS_LOG_DIRECTORY": directory}
        # The server offers the devices that it sees under new numbers: a subset would be selected twice.
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environment |= variables
        started = control and subprocess.run((control, "-d"), env=environment, check=False, timeout=30)
        if not control or not started or started.returncode != 0:
            yield None
            return
        try:
            yield variables
        finally:
            subprocess.run((control,), env=environment, input="quit\n", text=True, check=False, timeout=60)
