"""CUDA's MPS server, for tests and benchmarks whose processes share a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

NOT_STARTED = (
    "the MPS server could not be started, and without MPS the ranks would take turns; "
    "install nvidia-cuda-mps-control, or export CUDA_MPS_PIPE_DIRECTORY of a running server"
)


@contextmanager
def mps_server() -> Iterator[dict[str, str] | None]:
    """Yield the variables of an MPS server, or None if none can be started.

    Use the server that CUDA_MPS_PIPE_DIRECTORY names. If the variable is unset, start a server, and end it with the
    block.
    """
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield {}
        return
    control = shutil.which("nvidia-cuda-mps-control")
    # The server's sockets must fit into 108 characters, and the directory of a test can be longer than that.
    with tempfile.TemporaryDirectory(prefix="mps-") as directory:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": directory, "CUDA_MPS_LOG_DIRECTORY": directory}
        # The server renumbers the devices that it sees. Under the variable, clients would select a subset of a subset.
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environment |= variables
        started = control and subprocess.run((control, "-d"), env=environment, check=False, timeout=30)
        if not control or not started or started.returncode != 0:
            yield None
            return
        try:
            yield variables
        finally:
            subprocess.run((control,), env=environment, input="quit\n", text=True, check=True, timeout=60)
