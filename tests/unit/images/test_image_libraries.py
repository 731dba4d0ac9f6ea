"""The files that describe libraries: each is sound, and says what the guides of their vendors say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from clusterctl.artifacts import dockerfile
from clusterctl.errors import UsageError
from clusterctl.images import build, library

# What ranks have mapped, as far as it was seen; nothing of it is another library's.
MAPPED = {
    "aiacc": "/opt/clusterctl/library/python/aiacc_nccl/libnccl.so.2",
    "ccore": "/opt/clusterctl/library/python/collective_core/lib/libcollective_core.so",
    "nccl": "/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.7",
    "lightcc": "/usr/lib/python3.8/site-packages/horovod/torch/mpi_lib_v2.cpython-38-x86_64-linux-gnu.so",
    "horovod": "/usr/lib/python3.11/site-packages/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so",
    "accl": "/usr/lib/python3.8/site-packages/torch_accl/torch_accl.cpython-38-x86_64-linux-gnu.so",
    "acspeed": "/usr/lib/python3.8/site-packages/aiacc_c10d/_aiacc.cpython-38-x86_64-linux-gnu.so",
}


@pytest.mark.parametrize("name", library.names())
def test_a_file_is_sound(name: str) -> None:
    found = library.load(name)
    assert found.name == name and found.sources
    for other, path in MAPPED.items():
        # AIACC-NCCL is a build of NCCL, and LightCC one of Horovod.
        same = {other, name} in ({"aiacc", "nccl"}, {"lightcc", "horovod"})
        assert bool(re.search(found.mapped, path)) == (other == name) or same
    assert found.plugin is None or found.package(found.plugin)
    if found.version_program is not None:
        compile(found.version_program, name, "exec")


def test_there_is_one_for_every_library_of_the_guides() -> None:
    assert set(library.names()) == {"accl", "acspeed", "aiacc", "ccore", "horovod", "lightcc", "nccl"}
    with pytest.raises(UsageError, match="unknown library 'nkkl'") as caught:
        library.load("nkkl")
    assert "nccl" in (caught.value.hint or "")


def test_accl_plugins_follow_the_version_of_pytorch() -> None:
    assert library.load("accl").torch_versions == {"1.8": "0.1.0", "1.9": "0.2.0", "1.10": "0.3.0"}


def test_lightcc_has_its_variables_with_their_defaults() -> None:
    defaults = {variable.name: variable.default for variable in library.load("lightcc").variables}
    assert defaults == {
        "LIGHT_2D_ALLREDUCE": "0",
        "LIGHT_INTRA_SIZE": "8",
        "LIGHT_HIERARCHICAL_THRESHOLD": "1073741824",
        "LIGHT_TOPK_ALLREDUCE": "0",
        "LIGHT_TOPK_RATIO": "0.01",
        "LIGHT_TOPK_THRESHOLD": "1048576",
        "LIGHT_TOPK_FP16": "0",
    }


# The places of distributed_c10d.py that ACCL's edit concerns, from the wheels of PyTorch 1.8.1, 1.9.1 and 1.10.2.
IS_NCCL = """\
    is_nccl_backend = group_backend == Backend.NCCL
"""
BY_CLASS = """\
    if is_nccl_available() and isinstance(
        group or _get_default_group(), ProcessGroupNCCL
    ):
"""
DEVICE_IDS = """\
        if get_backend(group) != Backend.NCCL:
"""
UNTOUCHED = """\
        ProcessGroupNCCL._group_start()
    try:
        yield
"""
IS_NCCL_EDITED = """\
    is_nccl_backend = group_backend != Backend.MPI and group_backend != Backend.GLOO
"""
BY_CLASS_EDITED = """\
    if is_nccl_available() and isinstance(
        group or _get_default_group(), ProcessGroupNCCL
    ) or get_backend(group) == "accl":
"""
DEVICE_IDS_EDITED = """\
        if get_backend(group) != Backend.NCCL and get_backend(group) != "accl":
"""


@pytest.mark.parametrize(
    ("torch", "before", "after"),
    [
        (
            version,
            UNTOUCHED + IS_NCCL * 3 + DEVICE_IDS,
            UNTOUCHED + IS_NCCL_EDITED * 3 + DEVICE_IDS_EDITED,
        )
        for version in ("1.8.1+cu102", "1.9.0", "1.9.1")
    ]
    + [
        (
            version,
            UNTOUCHED + BY_CLASS + IS_NCCL * 2 + DEVICE_IDS,
            UNTOUCHED + BY_CLASS_EDITED + IS_NCCL_EDITED * 2 + DEVICE_IDS_EDITED,
        )
        for version in ("1.10.0a0+3fd9dcf", "1.10.2")
    ],
)
def test_a_dockerfile_edits_the_file_of_each_version_for_accl(
    tmp_path: Path, torch: str, before: str, after: str
) -> None:
    distributed = tmp_path / "torch/distributed"
    distributed.mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text(f"__version__ = {torch!r}\n")
    (distributed / "__init__.py").touch()
    path = distributed / "distributed_c10d.py"
    path.write_text(before)
    assert run_edits(tmp_path) == (0, "")
    assert path.read_text() == after
    # A second time nothing is left to edit: an image whose file is another one must not be built.
    code, error = run_edits(tmp_path)
    assert code == 1 and "distributed_c10d has nothing to edit" in error


def run_edits(packages: Path) -> tuple[int, str]:
    """Run the commands of ACCL's Dockerfile that edit Python modules; return exit status and stderr."""
    recipe = build.recipe(library.load("accl"), "nvcr.io/nvidia/pytorch:21.09-py3", "debian")
    commands = re.findall(r"^RUN ((?:.*\\\n)*.*)$", dockerfile.render(recipe), re.MULTILINE)
    for command in (command for command in commands if "sed -i -e" in command):
        done = subprocess.run(
            ("sh", "-c", command),
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return done.returncode, done.stderr
    return 0, ""
