"""The reduction kernels of 64-bit Arm, cross-compiled and emulated. `make core-aarch64` runs every C++ test so."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = REPOSITORY / "collective_core"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
# The kernels, what they include, and their tests; the rest of the library would take minutes.
SOURCES = (
    *sorted((CORE / "src/reduce").glob("*.cc")),
    *(CORE / f"src/common/{name}.cc" for name in ("dtype", "env", "error", "log", "simd")),
    *(
        REPOSITORY / f"tests/core/native/{name}.cc"
        for name in ("kernel_cases", "main", "reduction", "reduction_levels")
    ),
)


def test_neon_gives_the_bits_of_the_scalar_kernels(
    tmp_path: Path, tier_unavailable: Callable[[str], None]
) -> None:
    for tool in (COMPILER, EMULATOR):
        if shutil.which(tool) is None:
            tier_unavailable(f"{tool} is missing: apt-get install g++-aarch64-linux-gnu qemu-user")
    program = tmp_path / "kernels"
    sources = [str(source) for source in SOURCES if "avx" not in source.name]
    compile_all = (
        COMPILER, "-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{CORE / 'src'}",
        f"-I{CORE / 'include'}", *sources, "-pthread", "-o", str(program),
    )  # fmt: skip
    for command in (compile_all, (EMULATOR, "-L", "/usr/aarch64-linux-gnu", str(program), "reduction")):
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "reduction passed\n"
