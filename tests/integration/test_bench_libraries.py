"""``bench --library`` with a vendor's library: real ranks load a package of this test instead of the vendor's."""

import json
import sys
from pathlib import Path

import pytest

QUICK = (
    "--model",
    "resnet18",
    "--scaling",
    "2",
    "--batch-size",
    "2",
    "--image-size",
    "32",
    "--windows",
    "1",
    "-n",
    "4",
    "-w",
    "1",
)
# Horovod's API by collective_core, and an extension module with the name of Horovod's.
TORCH = """
import ctypes
import pathlib

ctypes.CDLL(str(next(pathlib.Path(__file__).parent.glob("mpi_lib*.so"))))
from collective_core.horovod.torch import *
"""


def inventory(tmp_path, packages):
    """Return an inventory of this machine whose Python also has the packages of a directory."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    path = tmp_path / "inventory.yaml"
    node = {"name": "here", "address": "localhost", "connection": "local", "python": str(python), "slots": 2}
    path.write_text(json.dumps({"version": 1, "nodes": [node]}))
    return str(path)


def install(packages, distribution, *, library):
    (packages / "horovod/torch").mkdir(parents=True)
    (packages / "horovod/__init__.py").write_text('__version__ = "0.28.1"\n')
    (packages / f"{distribution.replace('-', '_')}-3.1.1.dist-info").mkdir()
    (packages / f"{distribution.replace('-', '_')}-3.1.1.dist-info/METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 3.1.1\n"
    )
    lines = Path("/proc/self/maps").read_text().splitlines()
    libm = next(line.split()[-1] for line in lines if "/libm.so" in line or "/libm-" in line)
    (packages / "horovod/torch" / library).write_bytes(Path(libm).read_bytes())
    (packages / "horovod/torch/__init__.py").write_text(TORCH)


@pytest.fixture
def measure(run_clusterctl, tmp_path):
    """A function that trains with a library on this machine, and returns the exit status and the document."""

    def run(library, *options):
        place = inventory(tmp_path, tmp_path / "packages")
        done = run_clusterctl(
            "bench", "-i", place, "--library", library, *options, "--launcher", "local", "--json"
        )
        return done.returncode, json.loads(done.stdout)

    return run


def only_failure(document):
    (failure,) = (document.get("proof") or document)["failures"]
    return failure


def test_a_training_over_lightcc_is_proven_by_every_rank(measure, tmp_path):
    install(tmp_path / "packages", "tencent-lightcc", library="mpi_lib_v2.cpython-38-x86_64-linux-gnu.so")
    status, document = measure("lightcc", *QUICK)
    assert status == 0, document
    proof = document["proof"]
    assert (document["variants"][0]["library"], proof["settings"]["api"]) == ("lightcc", "horovod")
    (line,) = proof["library"]
    assert line.startswith("lightcc 3.1.1 ")
    assert "/horovod/torch/mpi_lib_v2.cpython-38-x86_64-linux-gnu.so" in line
    assert document["variants"][0]["keys"]["2"]["library_version"] == "3.1.1"


def test_a_package_without_the_file_of_the_library_is_refused(measure, tmp_path):
    install(tmp_path / "packages", "horovod", library="mpi_library.so")
    (tmp_path / "packages/horovod/torch/__init__.py").write_text(
        "from collective_core.horovod.torch import *\n"
    )
    status, document = measure("horovod", *QUICK)
    assert status == 10
    failure = only_failure(document)
    assert failure["kind"] == "library-unproven"
    assert failure["message"].startswith("rank 0 has no file of Horovod mapped, or did not report it")


@pytest.mark.parametrize(
    ("library", "title"),
    [
        ("accl", "Alibaba Cloud ACCL"), ("acspeed", "Alibaba Cloud AIACC-ACSpeed"),
        ("aiacc", "Alibaba Cloud AIACC-NCCL"), ("horovod", "Horovod"), ("lightcc", "Tencent Cloud TACO LightCC"),
    ],
)  # fmt: skip
def test_a_library_that_a_node_lacks_is_refused_by_name(measure, tmp_path, library, title):
    # LightCC has Horovod's modules, but is not Horovod, and the other way round.
    other = {"horovod": "tencent-lightcc", "lightcc": "horovod"}.get(library)
    if other is not None:
        install(tmp_path / "packages", other, library="mpi_lib_v2.so")
    status, document = measure(library, *QUICK)
    assert status == 10
    messages = [failure["message"] for failure in document["proof"]["failures"]]
    assert any(message.startswith(f"here: {title} is not installed for ") for message in messages)
    assert document["proof"]["ranks"] == []


def test_a_library_for_trainings_is_not_measured_by_collectives(measure):
    status, document = measure("lightcc", "--collective", "all_reduce", "-np", "2")
    assert (status, document["schema"]) == (2, "clusterctl.error/1")
    assert "takes part in a training" in document["error"]["message"]
