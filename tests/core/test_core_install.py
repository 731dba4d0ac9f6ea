"""What `cmake --install` puts into the wheel: the library, the programs that find it, the header."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

PROGRAMS = (
    "all_gather_perf",
    "all_gatherv_perf",
    "all_reduce_perf",
    "alltoall_perf",
    "alltoallv_perf",
    "broadcast_perf",
    "gather_perf",
    "hypercube_perf",
    "reduce_perf",
    "reduce_scatter_perf",
    "scatter_perf",
    "sendrecv_perf",
)


def test_install_tree(build: Any, tmp_path: Path) -> None:
    cmake = Path(build.ctest).with_name("cmake")
    subprocess.run(
        (str(cmake), "--install", str(build.folder), "--prefix", str(tmp_path)),
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    package = tmp_path / "collective_core"
    files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    # With a GPU or a named CUDA; tools/check_wheel.py holds the wheels of a release to have it.
    if cuda := {name for name in files if "cuda" in name}:
        assert {"lib/libcollective_core_cuda.so", "bin/cuda_perf"} <= cuda
        files -= cuda
    assert files == {
        "lib/libcollective_core.so",
        "lib/libcollective_core_nccl.so",
        "lib/libnccl-net-ccore.so",
        "lib/libnccl-tuner-ccore.so",
        *(f"bin/{name}" for name in PROGRAMS),
        "include/collective_core/collective_core.h",
        "include/collective_core/collective_core.hpp",
        *(
            f"lib/cmake/collective_core/collective_core{part}.cmake"
            for part in ("Config", "Config-release", "ConfigVersion")
        ),
        "lib/pkgconfig/collective_core.pc",
    }
    # The program finds its library wherever the package is moved to.
    moved = tmp_path / "elsewhere"
    shutil.move(package, moved)
    done = subprocess.run(
        (str(moved / "bin" / "all_reduce_perf"), "-b", "8", "-e", "8", "-n", "1"),
        capture_output=True, text=True, timeout=60, check=False, env={},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_header_is_plain_c(tmp_path: Path) -> None:
    header = Path(__file__).resolve().parents[2] / "collective_core" / "include"
    source = tmp_path / "user.c"
    source.write_text(
        "#include <collective_core/collective_core.h>\n"
        "int main(void) { cc_config config = {sizeof(cc_config)}; return config.size == 0; }\n"
    )
    subprocess.run(
        ("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-missing-field-initializers",
         "-I", str(header), "-c", str(source), "-o", str(tmp_path / "user.o")),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
