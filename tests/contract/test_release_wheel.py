"""The wheels of a release hold the CUDA library: the settings allow nothing else, and the check finds faults."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import check_wheel
import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
INSTALLER = "collective_core/scripts/install_cuda_compiler.py"
CHECK = "tools/check_wheel.py"

# As the tools print it.
MACHINE_CODE = "".join(f"ELF file    {n}: lib.{n}.sm_{a}.cubin\n" for n, a in enumerate((80, 90, 100), 1))
PTX = "PTX file    1: lib.1.sm_100.ptx\n"
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
    assert built < checked < kept and INSTALLER in names[checked]
    assert job["steps"][built]["with"] == {"package-dir": "collective_core"}
    recipe = (ROOT / "Makefile").read_text().partition("\nrelease-wheel:")[2].partition("\n\n")[0]
    assert recipe.index(INSTALLER) < recipe.index("cmake.define.CCORE_CUDA=ON") < recipe.index(CHECK)


def test_the_cuda_compiler_is_pinned_for_both_cpus() -> None:
    text = (ROOT / "collective_core/cuda/compiler.txt").read_text()
    packages = re.findall(r"^([\w-]+)==[\d.]+((?: \\\n  --hash=sha256:[0-9a-f]{64})+)$", text, re.M)
    assert "nvidia-cuda-nvcc" in dict(packages)
    assert all(hashes.count("sha256:") == 2 for _, hashes in packages)
    assert len(packages) == text.count("==")


def wheel(where: Path, *without: str) -> Path:
    """Write a wheel for another CPU, whose parts are empty."""
    path = where / "collective_core-0.1.0-py3-none-manylinux_2_28_other.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in check_wheel.PARTS:
            if name not in without:
                archive.writestr(name, "")
    return path


def tools(where: Path, monkeypatch: pytest.MonkeyPatch, *, elf: str, ptx: str, needed: str) -> None:
    """Put a cuobjdump and a readelf first that print these texts."""
    texts = {"elf": elf, "ptx": ptx, "needed": needed}
    for name, text in texts.items():
        (where / name).write_text(text)
    commands = {
        "cuobjdump": f'case $1 in --list-elf) cat "{where}/elf";; *) cat "{where}/ptx";; esac',
        "readelf": f'cat "{where}/needed"',
    }
    for name, command in commands.items():
        (where / name).write_text(f"#!/bin/sh\n{command}\n")
        (where / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(where), prepend=":")


def wrong(path: Path) -> dict[str, str]:
    return {finding.what: finding.fault for finding in check_wheel.findings(path) if finding.fault}


def test_a_good_wheel_has_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = "".join(map(NEEDED.format, ("libcollective_core.so", "libc.so.6", "ld-linux-aarch64.so.1")))
    tools(tmp_path, monkeypatch, elf=MACHINE_CODE, ptx=PTX, needed=needed)
    assert wrong(wheel(tmp_path)) == {}


def test_a_wheel_without_the_cuda_library_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(tmp_path, monkeypatch, elf="", ptx="", needed="")
    assert wrong(wheel(tmp_path, check_wheel.CUDA_LIBRARY)) == {
        "parts": f"missing: {check_wheel.CUDA_LIBRARY}"
    }


def test_a_gpu_without_code_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(tmp_path, monkeypatch, elf=MACHINE_CODE.replace("sm_100", "sm_90"), ptx=PTX, needed="")
    assert list(wrong(wheel(tmp_path))) == ["code for compute_100, sm_80, sm_90"]


@pytest.mark.parametrize("library", ["libcudart.so.13", "libcuda.so.1", "libstdc++.so.6"])
def test_a_library_that_nodes_may_lack_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    tools(tmp_path, monkeypatch, elf=MACHINE_CODE, ptx=PTX, needed=NEEDED.format(library))
    assert set(wrong(wheel(tmp_path)).values()) == {f"needs {library} too"}
