"""The wheel of the collective_core that is installed: the same bytes every time, and what pip would install."""

from __future__ import annotations

import csv
import hashlib
import io
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import installed_core
import pytest

from clusterctl import core_wheel
from clusterctl.errors import ConfigError
from clusterctl.images import unpack
from clusterctl.images.packages import VerifiedPackage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with an installed collective_core of version 9.9 that a test may change."""
    folder = tmp_path / "installed"
    folder.mkdir()
    installed_core.distribution(folder, "9.9")
    return folder


def distribution(folder: Path) -> metadata.Distribution:
    return metadata.PathDistribution(folder / "collective_core-9.9.dist-info")


def test_it_is_the_same_every_time_and_its_record_is_right(folder: Path) -> None:
    first = core_wheel.packed(distribution(folder))
    (folder / "collective_core/errors.py").touch()
    second = core_wheel.packed(distribution(folder))
    assert first == second
    assert first.file_name == "collective_core-9.9-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(io.BytesIO(first.data)) as archive:
        assert archive.testzip() is None
        record = archive.read("collective_core-9.9.dist-info/RECORD").decode()
        rows = {row[0]: row for row in csv.reader(io.StringIO(record))}
        assert set(rows) == set(archive.namelist())
    assert "collective_core-9.9.dist-info/INSTALLER" not in rows
    assert "collective_core-9.9.dist-info/entry_points.txt" in rows


def test_programs_stay_programs_when_it_is_unpacked(folder: Path, tmp_path: Path) -> None:
    (folder / "collective_core/py.typed").chmod(0o755)
    path = core_wheel.packed(distribution(folder)).write(tmp_path)
    target = tmp_path / "tree"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    version = unpack.unpack(VerifiedPackage("wheel", "wheel", path, path.name, "test", digest), target)
    assert version == "9.9"
    assert (target / "python/collective_core/py.typed").stat().st_mode & 0o777 == 0o755
    assert (target / "python/collective_core/errors.py").stat().st_mode & 0o777 == 0o644


def test_a_file_that_was_changed_since_is_named(folder: Path) -> None:
    with (folder / "collective_core/errors.py").open("a") as stream:
        stream.write("# changed\n")
    with pytest.raises(ConfigError, match=r"collective_core/errors\.py was changed after its installation"):
        core_wheel.packed(distribution(folder))


def test_a_file_that_is_missing_is_named(folder: Path) -> None:
    (folder / "collective_core/errors.py").unlink()
    with pytest.raises(ConfigError, match=r"cannot read .*errors\.py, which is part of collective_core"):
        core_wheel.packed(distribution(folder))


def test_the_installed_one_is_packed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(folder)])
    with zipfile.ZipFile(io.BytesIO(core_wheel.installed().data)) as archive:
        assert "collective_core/lib/libcollective_core.so" in archive.namelist()


@pytest.mark.parametrize(
    ("tag", "machine"),
    [
        ("py3-none-linux_x86_64", "x86_64"),
        ("py3-none-manylinux_2_28_aarch64", "aarch64"),
        ("py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64", "x86_64"),
        ("py3-none-any", ""),
    ],
)
def test_what_the_installed_one_runs_on_is_read_from_its_tag_and_library(
    folder: Path, tag: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wheel,) = folder.glob("*.dist-info/WHEEL")
    python, abi, platforms = tag.split("-")
    lines = [f"Tag: {python}-{abi}-{platform}" for platform in platforms.split(".")]
    kept = [line for line in wheel.read_text().splitlines() if not line.startswith("Tag: ")]
    wheel.write_text("\n".join((*kept, *lines)) + "\n")
    (library,) = folder.glob("collective_core/lib/libcollective_core.so")
    library.write_bytes(b"\0GLIBC_2.4\0GLIBC_2.34\0GLIBCXX_3.4.30\0GLIBC_PRIVATE\0")
    monkeypatch.setattr(sys, "path", [str(folder)])
    core_wheel.carried.cache_clear()
    found = core_wheel.carried()
    core_wheel.carried.cache_clear()
    assert found is not None and found.file_name.endswith(f"-{tag}.whl")
    assert (found.machine, found.glibc) == (machine, (2, 34))


def test_without_the_library_nothing_is_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    core_wheel.carried.cache_clear()
    assert core_wheel.carried() is None
    core_wheel.carried.cache_clear()


def test_without_the_library_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ConfigError, match="collective_core is not installed beside clusterctl") as caught:
        core_wheel.installed()
    assert "'clusterctl[core]'" in (caught.value.hint or "")
    info = tmp_path / "collective_core-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: collective_core\nVersion: 9.9\n")
    (info / "RECORD").write_text("_collective_core_editable.pth,,\n")
    with pytest.raises(ConfigError, match=r"has no collective_core/lib/libcollective_core\.so: .*editable"):
        core_wheel.installed()
