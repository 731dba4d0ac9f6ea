"""The files that describe libraries: each is sound, and says what the guides of their vendors say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from clusterctl.errors import UsageError
from clusterctl.images import library

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


# The three places as they are in PyTorch 1.10's distributed_c10d.py.
BEFORE = """\
    is_nccl_backend = group_backend == Backend.NCCL
    if not isinstance(pg, ProcessGroupNCCL
                      ):
        raise RuntimeError
    if get_backend(group) != Backend.NCCL:
"""
AFTER = """\
    is_nccl_backend = group_backend != Backend.MPI and group_backend != Backend.GLOO
    if not isinstance(pg, ProcessGroupNCCL
                      ) or get_backend(group) == "accl":
        raise RuntimeError
    if get_backend(group) != Backend.NCCL and get_backend(group) != "accl":
"""


def test_the_edit_for_accl_is_the_vendors(tmp_path: Path) -> None:
    path = tmp_path / "distributed_c10d.py"
    path.write_text(BEFORE)
    (edit,) = library.load("accl").edits
    for expression in edit.expressions:
        before = path.read_text()
        subprocess.run(("sed", "-i", "-e", expression, str(path)), check=True, timeout=10)
        assert path.read_text() != before
    assert path.read_text() == AFTER
