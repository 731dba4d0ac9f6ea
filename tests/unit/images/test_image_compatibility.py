"""What a library needs against what a base has, decided before anything is built."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterctl.errors import ImageError
from clusterctl.images import base_image, compatibility, elf, fatbin, library
from clusterctl.images.base_image import BaseImage
from clusterctl.images.elf import ElfNeeds
from clusterctl.images.library import kind_of
from clusterctl.images.packages import VerifiedPackage

UBUNTU = BaseImage(
    name="ngc", id="sha256:1", digest=None, family="debian", os="Ubuntu 20.04", glibc=(2, 31), glibcxx=(3, 4, 28),
    python=(3, 8), torch="1.10.0a0+3fd9dcf", cuda="11.4", mpirun="/usr/bin/mpirun", all_reduce_perf=None,
    machine="x86_64",
)  # fmt: skip


def needs(soname="libnccl.so.2", libraries=("libc.so.6",), **versions):
    return ElfNeeds(Path("libnccl.so.2.27"), "Advanced Micro Devices X86-64", soname, libraries, versions)


def package(name, file):
    return VerifiedPackage(name, kind_of(file), Path(file), file, file, "0" * 64)


def refused(findings):
    return {f.what: f.reason for f in findings if f.judgement is compatibility.Compatibility.REFUSED}


def judged(name="nccl", *, elf=(), packages=(), base=UBUNTU, **more):
    return compatibility.judge(library.load(name), packages, elf, base, **more)


def test_symbol_versions_are_compared_as_numbers_and_not_as_text() -> None:
    fits = judged(elf=[needs(GLIBC=(2, 4), GLIBCXX=(3, 4, 9))])
    assert refused(fits) == {}
    found = refused(judged(elf=[needs(GLIBC=(2, 35), GLIBCXX=(3, 4, 30))]))
    assert found["GLIBC"] == "libnccl.so.2.27 needs 2.35; ngc has 2.31"
    assert found["GLIBCXX"] == "libnccl.so.2.27 needs 3.4.30; ngc has 3.4.28"


def test_a_library_for_another_processor_is_refused() -> None:
    grace = dataclasses.replace(needs(), machine="AArch64")
    assert refused(judged(elf=[grace])) == {"machine": "built for aarch64; ngc is x86_64"}
    cubin = dataclasses.replace(needs(), machine="NVIDIA CUDA architecture")
    for fits in ([needs()], [needs(), cubin], [cubin], [needs(), grace]):
        assert refused(judged(elf=fits)) == {}
    wheel = package("library", "nvidia_nccl_cu12-2.27.3-py3-none-manylinux_2_18_aarch64.whl")
    assert refused(judged(packages=[wheel])) == {"wheel library": "built for aarch64; ngc is x86_64"}
    there = dataclasses.replace(UBUNTU, machine="aarch64")
    assert refused(judged(elf=[grace], packages=[wheel], base=there)) == {}


def test_another_soname_is_refused() -> None:
    assert "libnccl.so.3, not libnccl.so.2" in refused(judged(elf=[needs("libnccl.so.3")]))["SONAME"]


def test_without_readelf_nothing_is_taken_for_granted() -> None:
    findings = judged(elf=None)
    assert {finding.what for finding in findings} == {"SONAME", "GLIBC", "GLIBCXX"}
    assert {finding.judgement for finding in findings} == {compatibility.Compatibility.UNKNOWN}


@pytest.mark.parametrize(
    ("file", "torch", "reason"),
    [
        ("torch_accl-0.3.0-cp38-cp38-linux_x86_64.whl", "1.10.0a0+3fd9dcf", None),
        ("torch_accl-0.2.0-cp38-cp38-linux_x86_64.whl", "1.9.1", None),
        ("torch_accl-0.2.0-cp38-cp38-linux_x86_64.whl", "1.10.2", "requires 0.3.0"),
        ("torch_accl-0.1.0-cp38-cp38-linux_x86_64.whl", "1.1.0", "plugins are for 1.8, 1.9, 1.10"),
        ("torch_accl-0.3.0-cp38-cp38-linux_x86_64.whl", "1.13.1", "plugins are for 1.8, 1.9, 1.10"),
        ("torch_accl-0.3.0-cp38-cp38-linux_x86_64.whl", None, "has no PyTorch"),
    ],
)
def test_accls_plugin_follows_pytorch(file: str, torch: str | None, reason: str | None) -> None:
    found = refused(
        judged("accl", packages=[package("plugin", file)], base=dataclasses.replace(UBUNTU, torch=torch))
    )
    assert (reason is None) == (found == {})
    assert reason is None or reason in found["plugin plugin"]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("a-1.0-py3-none-any.whl", None),
        ("a-1.0-cp38-cp38-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", None),
        ("a-1.0-cp37-abi3-linux_x86_64.whl", None),
        ("a-1.0-cp311-cp311-linux_x86_64.whl", "for Python 3.11; ngc has 3.8"),
        ("a-1.0-cp38-cp38-manylinux_2_34_x86_64.whl", "ngc has glibc 2.31"),
        ("a-1.0-cp38-cp38-musllinux_1_2_x86_64.whl", "not for Linux with glibc"),
        ("a-1.0-cp38-cp38-win_amd64.whl", "not for Linux with glibc"),
    ],
)
def test_a_wheels_tags_are_compared_with_the_base(file: str, reason: str | None) -> None:
    found = refused(judged("acspeed", packages=[package("wheel", file)]))
    assert (reason is None) == (found == {})
    assert reason is None or reason in found["wheel wheel"]


# Binary code runs within its major version, PTX from its own upwards; ...a on that one alone, ...f on its family.
@pytest.mark.parametrize(
    ("code", "gpu", "runs"),
    [
        ({"sm_80"}, "NVIDIA A100-SXM4-80GB", True),
        ({"sm_80"}, "NVIDIA A40", True),
        ({"sm_86"}, "NVIDIA A100-SXM4-80GB", False),
        ({"sm_80"}, "NVIDIA H200", False),
        ({"sm_70", "compute_80"}, "NVIDIA H200", True),
        ({"sm_90a"}, "NVIDIA H100 80GB HBM3", True),
        ({"sm_90a"}, "NVIDIA B200", False),
        ({"sm_100f"}, "NVIDIA B300 SXM6 AC", True),
        ({"compute_100f"}, "NVIDIA B300 SXM6 AC", True),
        ({"sm_100a"}, "NVIDIA B300 SXM6 AC", False),
        ({"compute_90f"}, "NVIDIA B200", False),
        ({"sm_80"}, "NVIDIA RTX 2000 Ada Generation", True),
        ({"sm_80"}, "Quadro RTX 4000", False),
        ({"sm_70"}, "Tesla V100S-PCIE-32GB", True),
        ({"sm_70"}, "Tesla T4", True),
        ({"sm_75"}, "Tesla V100-SXM2-16GB", False),
    ],
)
def test_gpu_code_is_compared_with_the_nodes_gpus(code: set[str], gpu: str, runs: bool) -> None:
    found = refused(judged(elf=[needs()], architectures=frozenset(code), gpus=[gpu]))
    assert ("GPU code" not in found) == runs


def test_what_is_not_known_of_gpus_is_said() -> None:
    def of(**more):
        return [
            f for f in judged(elf=[needs(libraries=("libcudart.so.12",))], **more) if f.what == "GPU code"
        ]

    for more in ({}, {"architectures": frozenset({"sm_90"})},
                 {"architectures": frozenset({"sm_90"}), "gpus": ["NVIDIA X1000"]}):  # fmt: skip
        (finding,) = of(**more)
        assert finding.judgement is compatibility.Compatibility.UNKNOWN


def test_collective_cores_gpu_code_is_checked_although_it_needs_no_library_of_cuda() -> None:
    def of(*sonames, **more):
        elf = [needs(soname) for soname in ("libcollective_core.so", "libcollective_core_nccl.so", *sonames)]
        return [f for f in judged("ccore", elf=elf, **more) if f.what == "GPU code"]

    assert of() == []
    (unknown,) = of("libcollective_core_cuda.so")
    assert unknown.judgement is compatibility.Compatibility.UNKNOWN
    code = frozenset({"sm_80", "sm_90", "compute_100"})
    (fits, old) = of("libcollective_core_cuda.so", architectures=code, gpus=["NVIDIA H200", "Tesla T4"])
    assert (fits.judgement.value, old.judgement.value) == ("fits", "refused")


def answered(**answers: list[str]) -> BaseImage:
    debian = {
        "os": ["Debian GNU/Linux 12"],
        "ids": ["debian "],
        "manager": ["/usr/bin/apt-get"],
        "glibc": ["glibc 2.36"],
    }
    image = SimpleNamespace(id="sha256:2", attrs={"RepoDigests": ["debian@sha256:3"]})
    return base_image.parse("base", image, {k: v for k, v in (debian | answers).items() if v})


def test_a_base_is_what_its_container_says() -> None:
    found = answered(glibcxx=["GLIBCXX_3.4.9", "GLIBCXX_3.4.30"], python=["3.11"])
    assert (found.family, found.glibc, found.glibcxx, found.python) == (
        "debian",
        (2, 36),
        (3, 4, 30),
        (3, 11),
    )
    assert found.digest == "sha256:3" and found.torch is None
    assert answered(ids=["rocky rhel centos fedora"]).family == "rhel"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"musl": ["/lib/ld-musl-x86_64.so.1"]}, "has musl"),
        ({"ids": ["arch "]}, "neither of Debian's nor of the RHEL family"),
        ({"ids": []}, "neither of Debian's nor of the RHEL family"),
        ({"glibc": []}, "has no glibc"),
        ({"manager": []}, "has no package manager"),
    ],
)
def test_a_base_that_nothing_can_be_put_into_is_refused(answers: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        answered(**answers)


def test_readelf_reads_this_pythons_own_library(tmp_path: Path) -> None:
    import _ctypes

    path = Path(_ctypes.__file__)
    assert elf.elf_files(path.parent).count(path) == 1
    (found,) = elf.read([path])
    assert "GLIBC" in found.versions and any(name.startswith("libffi") for name in found.libraries)
    (tmp_path / "cut").write_bytes(path.read_bytes()[:64])
    with pytest.raises(ImageError, match="cut is not a valid ELF file"):
        elf.read([tmp_path / "cut"])


def test_gpu_code_is_read_from_its_headers_without_cudas_tools(tmp_path: Path) -> None:
    """A container has a header of 16 bytes and entries; each entry's header has its kind, sizes and architecture."""

    def entry(kind: int, architecture: int, code: bytes) -> bytes:
        head = struct.pack("<HHIQ", kind, 0x101, 64, len(code)).ljust(28, b"\0") + struct.pack(
            "<I", architecture
        )
        return head.ljust(64, b"\0") + code

    entries = entry(2, 70, b"x" * 100) + entry(2, 80, b"y" * 33) + entry(1, 80, b"z")
    marker = b"\x50\xed\x55\xba"
    container = marker + struct.pack("<HHQ", 1, 16, len(entries)) + entries
    path = tmp_path / "library.so"
    path.write_bytes(b"\x7fELF" + container + b"other" + marker)
    assert [code.name for code in fatbin.entries(path)] == ["sm_70", "sm_80", "compute_80"]
    path.write_bytes(b"\x7fELF" + container[:-40])
    assert [code.name for code in fatbin.entries(path)] == ["sm_70", "sm_80"]
    path.write_bytes(b"\x7fELF" + marker + b"\xff" * 60)
    assert list(fatbin.entries(path)) == []
