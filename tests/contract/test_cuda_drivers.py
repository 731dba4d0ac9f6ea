"""The libraries for GPUs need only functions that every driver of CUDA 12 has, and code that it can load."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

CORE = Path(__file__).parents[2] / "collective_core"

# The CUDA that brought each function, from the names of the types in CUDA's own cudaTypedefs.h.
SINCE = {
    "cuCtxGetCurrent": 4.0, "cuCtxGetDevice": 2.0, "cuCtxPopCurrent_v2": 4.0, "cuCtxPushCurrent_v2": 4.0,
    "cuDeviceGet": 2.0, "cuDeviceGetAttribute": 2.0, "cuDeviceGetUuid_v2": 11.4, "cuDevicePrimaryCtxRetain": 7.0,
    "cuGraphRetainUserObject": 11.3, "cuMemAddressFree": 10.2, "cuMemAddressReserve": 10.2, "cuMemAlloc_v2": 3.2,
    "cuMemExportToShareableHandle": 10.2, "cuMemFree_v2": 3.2, "cuMemGetAddressRange_v2": 3.2,
    "cuMemGetAllocationGranularity": 10.2, "cuMemGetAllocationPropertiesFromHandle": 10.2,
    "cuMemImportFromShareableHandle": 10.2, "cuMemMap": 10.2, "cuMemRelease": 10.2,
    "cuMemRetainAllocationHandle": 11.0, "cuMemSetAccess": 10.2, "cuMemUnmap": 10.2, "cuMemcpyDtoHAsync_v2": 3.2,
    "cuMemcpyHtoDAsync_v2": 3.2, "cuPointerGetAttribute": 4.0, "cuPointerGetAttributes": 7.0,
    "cuStreamBatchMemOp_v2": 11.7, "cuStreamCreate": 2.0, "cuStreamDestroy_v2": 4.0,
    "cuStreamGetCaptureInfo_v2": 11.3, "cuStreamGetCtx": 9.2, "cuStreamQuery": 2.0,
    "cuThreadExchangeStreamCaptureMode": 10.1, "cuUserObjectCreate": 11.3,
}  # fmt: skip
FIRST_OF_CUDA_12 = 12.0
LOOKED_UP = re.compile(r'(?:driver_function<.*>|\bfind)\((?:&[\w.>-]+, )?"(cu[A-Z]\w+)"')


def test_the_libraries_look_up_no_function_that_drivers_of_cuda_12_lack() -> None:
    sources = [path for part in ("cuda", "nccl") for path in (CORE / part / "src").rglob("*.*")]
    used = {name for path in sources for name in LOOKED_UP.findall(path.read_text())}
    assert used == set(SINCE)
    assert max(SINCE.values()) < FIRST_OF_CUDA_12


def test_the_error_for_an_old_driver_names_the_releases_of_the_documentation() -> None:
    error = (CORE / "cuda/src/error.h").read_text()
    releases = dict(re.findall(r'"driver (\d+) or newer \(CUDA (\d+)\)"', error))
    assert releases == {"525": "12", "580": "13"}
    page = " ".join((CORE / "docs/cuda.md").read_text().split())
    assert all(f"driver {release} or newer" in page for release in releases)


def call(script: str, where: Path, behind: str, *arguments: str) -> list[str]:
    """Run one of the installed scripts in front of a tool that prints its arguments, and return these."""
    for name, text in (("script", script), (behind, '#!/bin/sh\nprintf "%s\\n" "$@"\n')):
        (where / name).write_text(text)
        (where / name).chmod(0o755)
    done = subprocess.run(
        (where / "script", *arguments), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def test_code_of_the_front_end_of_cuda_13_reaches_the_assembler_of_cuda_12(tmp_path: Path) -> None:
    script = runpy.run_path(str(CORE / "scripts/install_cuda_compiler.py"))["PTXAS"]
    ptx = tmp_path / "a kernel.ptx"
    for gpu, assembled in (("75", "70"), ("90", "90")):
        ptx.write_text(f"//\n.version 9.0\n.target sm_{gpu}\n.func f\n")
        words = call(script, tmp_path, "ptxas-12", f"-arch=sm_{gpu}", "-m64", str(ptx), "-o", "a b.cubin")
        assert words == [f"-arch=sm_{assembled}", "-m64", str(ptx), "-o", "a b.cubin"]
        assert ptx.read_text() == f"//\n.version 8.7\n.target sm_{assembled}\n.func f\n"


def test_code_is_labelled_with_the_gpu_that_it_was_assembled_for(tmp_path: Path) -> None:
    script = runpy.run_path(str(CORE / "scripts/install_cuda_compiler.py"))["FATBINARY"]
    ptx = tmp_path / "a,sm=75,kernel.ptx"
    ptx.write_text(".version 9.0\n.target sm_75\n")
    machine_code = "--image3=kind=elf,sm=75,file=a b.cubin"
    assert call(script, tmp_path, "fatbinary-13", "-64", machine_code, f"--image3=kind=ptx,sm=75,file={ptx}") == [
        "--compress-mode=none", "-64", "--image3=kind=elf,sm=70,file=a b.cubin", f"--image3=kind=ptx,sm=70,file={ptx}",
    ]  # fmt: skip
    # Without machine code for the same GPU, ptxas has not seen it.
    assert ptx.read_text() == ".version 8.7\n.target sm_70\n"
    # What nvlink has linked was not assembled here.
    assert call(script, tmp_path, "fatbinary-13", "-link", machine_code) == ["-link", machine_code]
