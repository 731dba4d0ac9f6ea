"""The wheels of a release hold the CUDA library: the settings allow nothing else, and the check finds faults."""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import check_wheel
import gpu_code
import pytest
import yaml
from gpu_code import Code

from clusterctl.images import fatbin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
INSTALLER = "collective_core/scripts/install_cuda_compiler.py"
CHECK = "tools/check_wheel.py"

SM_90 = Code("sm_90", (0, 0), gpu_code.OLD_FORMAT)
PTX = Code("compute_100", (8, 7))
GOOD = (*(replace(SM_90, name=f"sm_{gpu}") for gpu in (70, 80, 90)), Code("sm_100", (12, 9), (0x41, 8)), PTX)
# As readelf prints it.
NEEDED = " 0x0000000000000001 (NEEDED)             Shared library: [{}]\n"


def test_a_build_without_the_cuda_compiler_fails() -> None:
    settings = tomllib.loads((ROOT / "collective_core/pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert settings["config-settings"] == {"cmake.define.CCORE_CUDA": "ON"}
    _, script, directory = settings["before-all"].split()
    assert script.format(package="collective_core") == INSTALLER and (ROOT / INSTALLER).is_file()
    assert settings["environment"] == {"CUDACXX": f"{directory}/bin/nvcc"}


def test_the_release_and_make_check_their_wheels() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["wheel"]
    names = [step.get("uses", step.get("run", "")) for step in job["steps"]]
    built, checked, kept = (
        next(i for i, name in enumerate(names) if word in name)
        for word in ("pypa/cibuildwheel", CHECK, "actions/upload-artifact")
    )
    assert built < checked < kept
    assert job["steps"][built]["with"] == {"package-dir": "collective_core"}
    recipe = (ROOT / "Makefile").read_text().partition("\nrelease-wheel:")[2].partition("\n\n")[0]
    assert recipe.index(INSTALLER) < recipe.index("cmake.define.CCORE_CUDA=ON") < recipe.index(CHECK)


def test_the_cuda_compiler_is_pinned_for_both_cpus() -> None:
    text = (ROOT / "collective_core/cuda/compiler.txt").read_text()
    packages = re.findall(r"^([\w-]+)==[\d.]+((?: \\\n  --hash=sha256:[0-9a-f]{64})+)$", text, re.M)
    assert "nvidia-cuda-nvcc" in dict(packages)
    assert all(hashes.count("sha256:") == 2 for _, hashes in packages)
    assert len(packages) == text.count("==")


def library(*codes: Code) -> bytes:
    """Return a library of GPU code alone, as nvcc writes it: one container, zeros, and another one."""
    library = b""
    for some in (codes[:1], codes[1:]):
        entries = b""
        for code in some:
            made = "{}.{}".format(*code.version)
            kind, _, gpu = code.name.partition("_")
            text = (
                f".version {made}\n"
                if kind == "compute"
                else f"Cuda compilation tools, release {made}, V{made}.1"
            )
            contents = b"\x7fELF\2\1\1" + bytes(code.elf_format) + b"\n" + text.encode()
            number = {name: number for number, name in fatbin.KINDS.items()}[kind]
            head = fatbin.ENTRY.pack(number, 0x101, fatbin.LEAST_HEADER, len(contents))
            head += struct.pack("<QIIQQ", 0, 0, int(gpu), 0, 0x8011 if code.compressed else 0x11)
            entries += head.ljust(fatbin.LEAST_HEADER, b"\0") + contents
        library += fatbin.CONTAINER + struct.pack("<HHQ", 1, 16, len(entries)) + entries + bytes(16)
    return library


def wheel(where: Path, *without: str, codes: tuple[Code, ...] = GOOD) -> Path:
    """Write a wheel for another CPU, whose other parts are empty."""
    path = where / "collective_core-0.1.0-py3-none-manylinux_2_28_other.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in check_wheel.PARTS:
            if name not in without:
                archive.writestr(name, library(*codes) if name in check_wheel.WITH_GPU_CODE else b"")
    return path


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file whose text a readelf prints that comes first in PATH."""
    text, tool = tmp_path / "needed", tmp_path / "readelf"
    text.write_text("")
    tool.write_text(f'#!/bin/sh\ncat "{text}"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return text


def wrong(path: Path) -> dict[str, str]:
    return {finding.what: finding.fault for finding in check_wheel.findings(path) if finding.fault}


def test_a_good_wheel_has_no_fault(tmp_path: Path, needed: Path) -> None:
    libraries = ("libcollective_core.so", "libc.so.6", "ld-linux-aarch64.so.1")
    needed.write_text("".join(map(NEEDED.format, libraries)))
    assert wrong(wheel(tmp_path)) == {}


@pytest.mark.usefixtures("needed")
def test_a_wheel_without_the_cuda_library_is_found(tmp_path: Path) -> None:
    assert wrong(wheel(tmp_path, check_wheel.CUDA_LIBRARY)) == {
        "parts": f"missing: {check_wheel.CUDA_LIBRARY}"
    }


@pytest.mark.usefixtures("needed")
def test_a_gpu_without_code_is_found(tmp_path: Path) -> None:
    assert list(wrong(wheel(tmp_path, codes=(*GOOD[:3], PTX)))) == [
        f"{name}: code for compute_100, sm_70, sm_80, sm_90"
        for name in ("libcollective_core_cuda.so", "cuda_perf")
    ]


def test_a_library_that_is_cut_off_lacks_code(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    whole = library(*GOOD)
    for length in range(len(whole) - 16):
        path.write_bytes(whole[:length])
        found = gpu_code.gpu_code(path)
        assert found < set(GOOD)
    path.write_bytes(whole)
    assert gpu_code.gpu_code(path) == set(GOOD)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        # As the assembler and the compression of CUDA 13 make them.
        (
            replace(SM_90, version=(13, 0), elf_format=(0x41, 8)),
            "is in the format of CUDA 13.0, expected CUDA 12",
        ),
        (Code("sm_100", (13, 0), (0x41, 8)), "was assembled by CUDA 13.0, expected CUDA 12"),
        (replace(PTX, version=(9, 0)), "is PTX 9.0, expected at most 8.7 (CUDA 12.8)"),
        (replace(SM_90, compressed=True), "is compressed, which drivers of CUDA 12 may not read"),
        (replace(PTX, compressed=True), "is compressed, which drivers of CUDA 12 may not read"),
    ],
    ids=lambda value: value.name if isinstance(value, Code) else "",
)
@pytest.mark.usefixtures("needed")
def test_code_that_drivers_of_cuda_12_cannot_load_is_found(tmp_path: Path, code: Code, fault: str) -> None:
    codes = (*(good for good in GOOD if good.name != code.name), code)
    assert set(wrong(wheel(tmp_path, codes=codes)).values()) == {f"{code.name} {fault}"}


@pytest.mark.parametrize("name", ["libcudart.so.13", "libcuda.so.1", "libstdc++.so.6"])
def test_a_library_that_nodes_may_lack_is_found(tmp_path: Path, needed: Path, name: str) -> None:
    needed.write_text(NEEDED.format(name))
    assert set(wrong(wheel(tmp_path)).values()) == {f"needs {name} too"}
