"""MPICH, NCCL and nccl-tests in the directory that two nodes share: bootstrap, a launch from it, and undo.

MPICH is the real one of the Python package index. NCCL and nccl-tests are small sources with the targets and variables
of theirs, because NVIDIA's take an hour to build; make, the C++ compiler and CUDA's compiler are real.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import mesh_nodes
import mpi_wheels
import pytest
import sshd_farm as farms

from clusterctl.apply.payload import LIMIT_BYTES

NCCL = {
    "Makefile": """\
src.build:
\tmkdir -p build/include build/lib
\tcp nccl.h build/include
\t$(CUDA_HOME)/bin/nvcc --version >build/compiler
\tg++ -shared -fPIC -o build/lib/libnccl.so nccl.cc
""",
    "nccl.h": '#pragma once\nextern "C" int ncclGetVersion(int* version);\n',
    "nccl.cc": '#include "nccl.h"\nint ncclGetVersion(int* version) { *version = 22809; return 0; }\n',
}
NCCL_TESTS = {
    "Makefile": """\
build/all_reduce_perf: main.cc
\tmkdir -p build
\t$(CUDA_HOME)/bin/nvcc --version >build/compiler
\tg++ -DMPI_SUPPORT=$(MPI) -I$(MPI_HOME)/include -I$(NCCL_HOME)/include -o $@ main.cc \\
\t  -L$(MPI_HOME)/lib -L$(NCCL_HOME)/lib -lmpi -lnccl
""",
    "main.cc": """\
#include <mpi.h>
#include <nccl.h>
#include <cstdio>
int main(int argc, char** argv) {
  int rank, size, sum, version;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ncclGetVersion(&version);
  printf("rank %d of %d, sum %d, NCCL %d\\n", rank, size, sum, version);
  MPI_Finalize();
}
""",
}


def _source(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def _mpich(target: Path) -> Path:
    """Pack the installed MPICH without what its virtual environment adds."""
    home = mpi_wheels.mpirun("mpich").parents[1]
    patterns = ("bin/mpi*", "bin/hydra*", "include/mpi*", "lib/libmpi.so*", "lib/mpich")
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(path for pattern in patterns for path in home.glob(pattern)):
            archive.add(path, f"mpich/{path.relative_to(home)}")
    return target


@pytest.fixture
def fleet(tier_unavailable: Callable[[str], None], tmp_path: Path) -> Iterator[tuple[mesh_nodes.Mesh, Path]]:
    """Two nodes, and the directory with their inventory."""
    if reason := mesh_nodes.missing():
        tier_unavailable(reason)
    if not Path("/usr/local/cuda/bin/nvcc").exists():
        tier_unavailable("CUDA's compiler is not in /usr/local/cuda")
    with farms.temporary_user(sudo="(ALL) NOPASSWD: ALL", shell="/bin/bash") as user:
        mesh = mesh_nodes.start_mesh(user, (22, 22))
        # Both nodes see this machine's files, as they would see those of one NFS server.
        shared = mesh.directory / "shared"
        shared.mkdir(mode=0o755)
        first = mesh.nodes[0].name
        sources = {
            "mpich": _mpich(tmp_path / "mpich.tar.gz"),
            "nccl": _source(tmp_path / "nccl", NCCL),
            "nccl_tests": _source(tmp_path / "nccl-tests", NCCL_TESTS),
        }
        text = f"version: 1\nlauncher: mpich\ndefaults:\n  user: {user.name}\n  identity_file: {mesh.identity_file}\n"
        text += "  socket_ifname: eth0\n  slots: 1\n  requirements:\n"
        text += f"    shared_dir: {{path: {shared}, server: {first}}}\n    mpi:\n"
        text += "".join(f"      {name}: {path}\n" for name, path in sources.items())
        text += "nodes:\n"
        text += "".join(f"  - {{name: {n.name}, address: {n.address}, port: {n.port}}}\n" for n in mesh.nodes)
        (tmp_path / "inventory.yaml").write_text(text)
        try:
            yield mesh, tmp_path
        finally:
            mesh.stop()


def _clusterctl(fleet: tuple[mesh_nodes.Mesh, Path], *words: str, expect: int = 0) -> str:
    mesh, folder = fleet
    done = subprocess.run(
        (str(Path(sys.executable).with_name("clusterctl")), *words),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=300, check=False,
        env={**os.environ, **mesh.env, "CLUSTERCTL_RUNS": str(folder / "runs")},
    )  # fmt: skip
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def test_one_node_fills_the_shared_directory_and_all_launch_from_it(
    fleet: tuple[mesh_nodes.Mesh, Path],
) -> None:
    mesh, folder = fleet
    shared = mesh.directory / "shared"
    first, second = (node.name for node in mesh.nodes)
    only = ("--only", "mpi,ssh-mesh,names")
    before = [node.files() for node in mesh.nodes]
    checked = _clusterctl(fleet, "check", *only, expect=1)
    assert f"MPICH, NCCL, nccl-tests are not in {shared}" in checked
    assert f"{first}, which fills it, comes first" in checked
    # Without the node that fills the directory, the other one does not.
    _clusterctl(fleet, "bootstrap", "--yes", "--only", "mpi", "--limit", second, expect=1)
    assert not any(shared.iterdir())
    _clusterctl(fleet, "bootstrap", "--yes", *only)
    assert {path.name for path in shared.iterdir()} == {"mpich", "nccl", "nccl-tests"}
    _clusterctl(fleet, "check", *only)
    program = f"{shared}/nccl-tests/build/all_reduce_perf"
    _clusterctl(fleet, "launch", "-np", "2", "--", program)
    logs = "".join(path.read_text() for path in (folder / "runs").glob("*-launch-*/logs/**/*.log"))
    for rank in range(2):
        assert f"rank {rank} of 2, sum 1, NCCL 22809" in logs
    _clusterctl(fleet, "undo", "--yes")
    assert not any(shared.iterdir())
    assert [node.files() for node in mesh.nodes] == before


def test_an_installed_mpich_fits_into_a_tree(tmp_path: Path) -> None:
    """Measure the whole package, with the second library for the standard ABI."""
    home = mpi_wheels.mpirun("mpich").parents[1]
    kept = [path for name in ("include", "lib/mpich") for path in (home / name).rglob("*")]
    kept += [*(home / "lib").glob("libmpi*"), *(home / "bin").glob("mpi*"), *(home / "bin").glob("hydra*")]
    assert sum(path.stat().st_size for path in kept if path.is_file() and not path.is_symlink()) < LIMIT_BYTES
