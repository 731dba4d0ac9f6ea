"""What is unpacked into a library's layer, and what is refused."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from clusterctl.errors import ImageError
from clusterctl.images import unpack
from clusterctl.images.library import Kind, kind_of
from clusterctl.images.packages import VerifiedPackage


def package(path: Path, kind: Kind | None = None) -> VerifiedPackage:
    return VerifiedPackage("library", kind or kind_of(path.name), path, path.name, "test", "0" * 64)


def archive(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def test_an_archives_only_folder_is_left_out(tmp_path: Path) -> None:
    members = [
        (tarfile.TarInfo("nccl_2.27/lib/libnccl.so.2.27.7"), b"library"),
        (link("nccl_2.27/lib/libnccl.so.2", "libnccl.so.2.27.7"), b""),
    ]
    target = tmp_path / "tree"
    assert unpack.unpack(package(archive(tmp_path / "nccl_2.27.txz", members)), target) is None
    assert (target / "lib/libnccl.so.2").read_bytes() == b"library"


def test_a_source_distribution_of_python_goes_to_the_python_packages(tmp_path: Path) -> None:
    info = b"Metadata-Version: 2.1\nName: aiacc-nccl\nVersion: 2.0.0\n"
    members = [
        (tarfile.TarInfo("aiacc-nccl-2.0.0/PKG-INFO"), info),
        (tarfile.TarInfo("aiacc-nccl-2.0.0/aiacc_nccl/libnccl.so.2"), b"library"),
        (tarfile.TarInfo("aiacc-nccl-2.0.0/aiacc_nccl.egg-info/PKG-INFO"), info),
    ]
    target = tmp_path / "tree"
    assert unpack.unpack(package(archive(tmp_path / "aiacc-nccl-2.0.0.tar.xz", members)), target) == "2.0.0"
    assert (target / "python/aiacc_nccl/libnccl.so.2").read_bytes() == b"library"
    found = metadata.distributions(name="aiacc-nccl", path=[str(target / "python")])
    assert [distribution.version for distribution in found] == ["2.0.0"]


def test_a_debian_package_says_its_version(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/libnccl.so.2").write_text("library")
    (root / "DEBIAN/control").write_text(
        "Package: libnccl2\nVersion: 2.27.7-1\nArchitecture: amd64\nMaintainer: nobody\nDescription: test\n"
    )
    path = tmp_path / "libnccl2.deb"
    subprocess.run(
        ("dpkg-deb", "-Zxz", "--build", "--root-owner-group", str(root), str(path)),
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert unpack.unpack(package(path), tmp_path / "tree") == "2.27.7-1"
    assert (tmp_path / "tree/usr/lib/libnccl.so.2").read_text() == "library"


def test_a_wheels_data_goes_beside_its_packages_and_scripts_stay_out(tmp_path: Path) -> None:
    path = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a/__init__.py", "")
        wheel.writestr("a-1.0.data/platlib/b.so", "library")
        wheel.writestr("a-1.0.data/scripts/tool", "#!python")
        wheel.writestr("a-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1.0\n")
    assert unpack.unpack(package(path), tmp_path / "tree") == "1.0"
    found = {file.relative_to(tmp_path / "tree").as_posix() for file in (tmp_path / "tree").rglob("*.*")}
    assert {"python/a/__init__.py", "python/b.so"} <= found
    assert not list((tmp_path / "tree").rglob("tool"))


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../outside"),
        tarfile.TarInfo("/outside"),
        tarfile.TarInfo("a/../../outside"),
        link("a/lib", "/etc"),
        link("a/lib", "../../.."),
    ],
    ids=lambda member: f"{member.name}{member.linkname}",
)
def test_what_reaches_out_of_the_folder_is_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    path = archive(tmp_path / "bad.txz", [(tarfile.TarInfo("a/first"), b""), (member, b"")])
    with pytest.raises(ImageError, match=r"is outside of the directory|, outside of its directory"):
        unpack.unpack(package(path), tmp_path / "tree")
    assert not (tmp_path / "outside").exists()


def test_a_wheel_that_reaches_out_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("../../outside", "x")
    with pytest.raises(ImageError, match="is outside of the directory"):
        unpack.unpack(package(path), tmp_path / "tree")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("name", ["a.whl", "a.deb", "a.tar.gz"])
@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08\x00garbage", b"!<arch>\ncut off" * 9])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ImageError, match=f"{name} cannot be unpacked"):
        unpack.unpack(package(path), tmp_path / "tree")


def test_an_archive_with_a_damaged_middle_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.txz", [(tarfile.TarInfo("a/x"), bytes(range(256)) * 4096)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2] = b"\xff\x00"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=r"a\.txz cannot be unpacked"):
        unpack.unpack(package(path), tmp_path / "tree")
