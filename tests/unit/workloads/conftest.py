"""What ranks started by hand need: a free port, and an environment that holds nothing of this machine's."""

import os
import socket
from pathlib import Path

import pytest
import torch


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def bare_environment():
    """PATH, the checkout to import from, and one thread for each process."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def _one_thread():
    """Several threads of one small operation wait for each other on a busy machine, and win nothing on a free one."""
    torch.set_num_threads(1)
