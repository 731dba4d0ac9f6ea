"""Install a CUDA compiler whose code drivers of CUDA 12 can load into a directory, from PyPI: DIRECTORY/bin/nvcc.

The release builds its wheels with it, in containers that have no CUDA. `cuda/compiler.txt` pins the packages.
`nvcc` and its front end are those of CUDA 13, because PyPI has none of CUDA 12. The assembler, the headers and
the static runtime are those of CUDA 12. Scripts named `ptxas` and `fatbinary` handle three differences:

- The front end writes PTX of its own version, which the assembler of CUDA 12 refuses. The PTX gets the version
  of CUDA 12.8 instead. The assembler refuses instructions that this version lacks.
- The front end cannot compile for 7.0. What it compiles for 7.5 is assembled for 7.0, so that V100 and T4 run it.
  The assembler refuses instructions that 7.0 lacks.
- Code is not compressed, because drivers of CUDA 12 do not have all compressions of CUDA 13.
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

# What the front end of CUDA 13 has written, for tools of CUDA 12.
ALTER_PTX = r"sed -i -e 's/^\.version 9\.0$/.version 8.7/' -e 's/^\.target sm_75$/.target sm_70/'"
PTXAS = f"""#!/bin/sh
# Assembles what the front end of CUDA 13 made: see install_cuda_compiler.py.
for argument; do
  shift
  case $argument in
    -arch=sm_75) argument=-arch=sm_70 ;;
    *.ptx) {ALTER_PTX} "$argument" || exit ;;
  esac
  set -- "$@" "$argument"
done
exec "${{0%/*}}/ptxas-12" "$@"
"""
FATBINARY = f"""#!/bin/sh
# Labels code with the GPU that it is for, and does not compress it: see install_cuda_compiler.py.
case " $* " in *" -link "*) exec "${{0%/*}}/fatbinary-13" "$@" ;; esac  # of nvlink, which makes code for 7.5
for argument; do
  shift
  case $argument in
    --image3=kind=ptx,*) {ALTER_PTX} "${{argument#*,file=}}" || exit ;;
  esac
  case $argument in
    --image3=kind=*,sm=75,*) argument=${{argument%%,*}},sm=70,${{argument#*,sm=75,}} ;;
  esac
  set -- "$@" "$argument"
done
exec "${{0%/*}}/fatbinary-13" --compress-mode=none "$@"
"""


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
    toolkit, assembler, runtime = (into / "nvidia" / name for name in ("cu13", "cuda_nvcc", "cuda_runtime"))
    # The front end's own headers (crt) stay: the host code that it writes calls them.
    for path in (*(runtime / "include").iterdir(), *(runtime / "lib").iterdir()):
        if path.suffix != ".py":
            path.rename(toolkit / path.relative_to(runtime))
    (toolkit / "bin" / "fatbinary").rename(toolkit / "bin" / "fatbinary-13")
    (assembler / "bin" / "ptxas").rename(toolkit / "bin" / "ptxas-12")
    for name, script in (("ptxas", PTXAS), ("fatbinary", FATBINARY)):
        tool = toolkit / "bin" / name
        tool.unlink(missing_ok=True)
        tool.write_text(script)
        tool.chmod(0o755)
    # nvcc looks for its libraries in lib64, and CMake for the shared runtime, although the static one is linked.
    (toolkit / "lib64").symlink_to("lib")
    (shared,) = (toolkit / "lib").glob("libcudart.so.*")
    (toolkit / "lib" / "libcudart.so").symlink_to(shared.name)
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
