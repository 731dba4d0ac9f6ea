"""A rank with a library of others: real processes, with a module instead of the vendor's."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from free_ports import free_port

from clusterctl.inventory.model import Node
from clusterctl.launch import foreign_library as launching
from clusterctl.launch.readiness import assumed
from clusterctl.trust import foreign_library as proof
from clusterctl.trust import usage
from clusterctl.workloads import foreign_library

REPOSITORY = Path(foreign_library.__file__).parents[2]
# A backend of the vendor's name, which loads a library of the vendor's name; Gloo moves the data.
MODULE = """
import ctypes
import pathlib
import torch.distributed as dist

ctypes.CDLL(str(pathlib.Path(__file__).with_name("libaccl.so")))

def group(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)

dist.Backend.register_backend("accl", group, devices=["cpu"])
"""


@pytest.fixture
def installed(tmp_path):
    """Return a directory with the plugin, as pip would install it."""
    folder = tmp_path / "site-packages"
    (folder / "torch_accl").mkdir(parents=True)
    (folder / "torch_accl-0.3.0.dist-info").mkdir()
    (folder / "torch_accl-0.3.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch-accl\nVersion: 0.3.0\n"
    )
    (folder / "torch_accl/__init__.py").write_text(MODULE)
    lines = Path("/proc/self/maps").read_text().splitlines()
    libm = next(line.split()[-1] for line in lines if "/libm.so" in line or "/libm-" in line)
    (folder / "torch_accl/libaccl.so").write_bytes(Path(libm).read_bytes())
    return folder


def ranks(folder):
    """Run a sweep of two ranks with the variables of a launch; return rank 0's output and both exit statuses."""
    port = free_port()
    node = assumed(Node(name="a", address="a", slots=2))
    chosen = launching.variables("accl", {"a": node.library})
    program = (
        sys.executable,
        "-m",
        "clusterctl.workloads",
        "collective",
        "--backend",
        "accl",
        "--device",
        "cpu",
    )
    started = [
        subprocess.Popen(
            (*program, "-b", "8", "-e", "1K", "-f", "16", "-n", "2", "-T", "60"),
            env={
                **os.environ, **chosen, "PYTHONPATH": f"{folder}:{REPOSITORY}", "RANK": str(rank), "WORLD_SIZE": "2",
                "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            },
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    texts = [process.communicate(timeout=120) for process in started]
    return texts, [process.returncode for process in started]


def test_ranks_that_use_the_library_prove_it(installed):
    texts, statuses = ranks(installed)
    assert statuses == [0, 0], texts
    table = texts[0][0]
    used = usage.of_table(table)
    sha256 = hashlib.sha256((installed / "torch_accl/libaccl.so").read_bytes()).hexdigest()
    assert [[one.sha256 for one in rank.files] for rank in used] == [[sha256], [sha256]]
    assert re.search(r"^# Library accl 0\.3\.0 .*/torch_accl/libaccl\.so$", table, re.MULTILINE)
    assert proof.unproven(launching.proof("accl"), 2, used, ({0: table},)) == ()


def test_a_rank_without_the_library_says_what_it_needs(tmp_path):
    texts, statuses = ranks(tmp_path)
    assert statuses == [4, 4]
    assert "Alibaba Cloud ACCL needs the module torch_accl, which" in texts[0][1]


def test_a_rank_reports_nothing_of_a_library_that_is_not_asked_for():
    assert foreign_library.load({}) is None
    assert foreign_library.files({}) == []
    assert foreign_library.proof({}) == {}
