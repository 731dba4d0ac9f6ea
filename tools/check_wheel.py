"""Check a wheel of collective_core as the release builds it: parts, GPU code, what its libraries need, and size.

Needs readelf (binutils), and the checkout in PYTHONPATH. Prints one line for each property, and exits 1 if one is
wrong. A wheel for this CPU is also loaded, without a driver.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_code import gpu_code

CUDA_LIBRARY = "collective_core/lib/libcollective_core_cuda.so"
WITH_GPU_CODE = (CUDA_LIBRARY, "collective_core/bin/cuda_perf")
PARTS = (
    *WITH_GPU_CODE,
    "collective_core/bin/all_reduce_perf",
    "collective_core/include/collective_core/collective_core.h",
    "collective_core/include/collective_core/collective_core_cuda.h",
    "collective_core/include/collective_core/collective_core_cuda_nodes.h",
    "collective_core/include/collective_core/collective_core_cuda_topk.h",
    "collective_core/include/collective_core/collective_core_cuda_tuning.h",
    "collective_core/lib/libcollective_core.so",
    "collective_core/lib/libcollective_core_nccl.so",
    "collective_core/lib/libnccl-net-ccore.so",
    "collective_core/lib/libnccl-tuner-ccore.so",
)
# V100 and T4, A100, H100 and H200, B200; newer GPUs compile the PTX.
GPU_CODE = {"sm_70", "sm_80", "sm_90", "sm_100", "compute_100"}
# Of the C library, and of the wheel itself.
MAY_NEED = re.compile(
    r"(libc|libm|libdl|librt|libpthread)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+|libcollective_core(_cuda)?\.so|libnccl-net-ccore\.so"
)
MOST_BYTES = 20_000_000

# The CUDA library must load where neither a driver nor CUDA is installed, and only when it is asked for.
WITHOUT_DRIVER = """
import ctypes
from collective_core import _lib
from collective_core.locations import library_path
_lib.library()
with open("/proc/self/maps") as maps:
    assert "libcollective_core_cuda" not in maps.read(), "import of collective_core loads the CUDA library"
cuda = ctypes.CDLL(str(library_path().with_name("libcollective_core_cuda.so")))
cuda.cc_cuda_last_error.restype = ctypes.c_char_p
code = cuda.cc_cuda_device_identity(ctypes.create_string_buffer(16))
print("a GPU was found" if code == 0 else cuda.cc_cuda_last_error().decode())
"""


@dataclass(frozen=True)
class Finding:
    """One property of the wheel; `fault` is empty if it is as it must be."""

    what: str
    fault: str = ""


def findings(wheel: Path) -> Iterator[Finding]:
    """Unpack the wheel and look at each property."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root)
        missing = [name for name in PARTS if not (root / name).is_file()]
        yield Finding("parts", f"missing: {', '.join(missing)}" if missing else "")
        for name in WITH_GPU_CODE:
            if name not in missing:
                yield from code_for_gpus(root / name)
        yield from (needs(root, path) for path in binaries(root))
        if platform.machine() in wheel.name and not missing:
            yield without_driver(root)
    size = wheel.stat().st_size
    yield Finding(
        f"{size / 1e6:.1f} MB", f"larger than {MOST_BYTES / 1e6:.0f} MB" if size > MOST_BYTES else ""
    )


def code_for_gpus(library: Path) -> Iterator[Finding]:
    """Compare the GPUs with those of the documentation, and tell whether drivers of CUDA 12 can load the code."""
    found = gpu_code(library)
    names = sorted({code.name for code in found})
    yield Finding(
        f"{library.name}: code for {', '.join(names)}",
        "" if set(names) == GPU_CODE else f"expected {', '.join(sorted(GPU_CODE))}",
    )
    faults = sorted({f"{code.name} {code.fault}" for code in found if code.fault})
    yield Finding(f"{library.name}: drivers of CUDA 12 load the code", "; ".join(faults))


def binaries(root: Path) -> list[Path]:
    """Return what is compiled."""
    core = root / "collective_core"
    return sorted([*core.glob("lib/*.so"), *core.glob("bin/*")])


def needs(root: Path, path: Path) -> Finding:
    """Look at the libraries that the loader must find for a library or a program."""
    dynamic = output("readelf", "--wide", "--dynamic", path)
    strange = [name for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic) if not MAY_NEED.fullmatch(name)]
    return Finding(
        f"{path.relative_to(root)} needs only the C library",
        f"needs {', '.join(strange)} too" if strange else "",
    )


def without_driver(root: Path) -> Finding:
    """Load the CUDA library in a process of its own."""
    done = subprocess.run(
        (sys.executable, "-c", WITHOUT_DRIVER),
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Finding(f"loads: {done.stdout.strip()}", done.stderr.strip() if done.returncode else "")


def output(*command: str | Path) -> str:
    """Return what a tool prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", type=Path, nargs="+", metavar="WHEEL")
    wrong = 0
    for wheel in parser.parse_args().wheels:
        print(wheel.name)
        for finding in findings(wheel):
            print(f"  {'WRONG' if finding.fault else 'ok':5}  {finding.what}")
            if finding.fault:
                print(f"         {finding.fault}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
