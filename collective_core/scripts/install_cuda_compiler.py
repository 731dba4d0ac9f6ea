"""Install CUDA's compiler and static runtime into a directory, from PyPI: DIRECTORY/bin/nvcc.

The release builds its wheels with it, in containers that have no CUDA. `cuda/compiler.txt` pins the packages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1] / "cuda" / "compiler.txt"
# As pip and as nvcc --target-directory name 64-bit Arm.
ARM_PLATFORM, ARM_TARGET = "manylinux2014_aarch64", "sbsa-linux"


def install(directory: Path, *, also_arm: bool) -> None:
    """Fill a directory that does not exist yet; `also_arm` adds what a program for 64-bit Arm is linked with."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        toolkit = _fetch(Path(scratch, "own"))
        if also_arm:
            (toolkit / "targets").mkdir()
            _fetch(Path(scratch, "arm"), "--platform", ARM_PLATFORM).rename(toolkit / "targets" / ARM_TARGET)
        toolkit.rename(directory)


def _fetch(into: Path, *options: str) -> Path:
    command = (
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary", ":all:", "--target", str(into), "--requirement", str(PACKAGES), *options,
    )  # fmt: skip
    subprocess.run(command, check=True)
    (toolkit,) = (into / "nvidia").glob("cu*")
    # nvcc looks for its libraries in lib64, and CMake for the shared runtime, although the static one is linked.
    (toolkit / "lib64").symlink_to("lib")
    (runtime,) = (toolkit / "lib").glob("libcudart.so.*")
    (toolkit / "lib" / "libcudart.so").symlink_to(runtime.name)
    return toolkit


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, metavar="DIRECTORY", help="must not exist")
    parser.add_argument(
        "--also-arm", action="store_true", help="also compile for 64-bit Arm (default: for this CPU)"
    )
    chosen = parser.parse_args()
    if chosen.directory.exists():
        raise SystemExit(f"{chosen.directory} exists; remove it, or name another directory")
    install(chosen.directory, also_arm=chosen.also_arm)


if __name__ == "__main__":
    main()
