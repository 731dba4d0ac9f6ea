"""What ranks started by hand need: a free port, and an environment that holds nothing of this machine's."""

import os
from pathlib import Path

import free_ports
import pytest
import torch


@pytest.fixture
def free_port():
    return free_ports.free_port()


@pytest.fixture
def bare_environment():
    """PATH, the checkout to import from, and one thread for each process."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def _one_thread():
    """Several threads of one small operation wait for each other on a busy machine, and win nothing on a free one."""
    torch.set_num_threads(1)
