"""The wheel of the clusterctl that is installed: the same bytes every time, and what pip would install."""

from __future__ import annotations

import csv
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import installed_clusterctl
import pytest

from clusterctl.errors import ImageError
from clusterctl.images import unpack, wheel
from clusterctl.images.packages import VerifiedPackage


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with an installed clusterctl of version 9.9 that a test may change."""
    folder = tmp_path / "installed"
    folder.mkdir()
    installed_clusterctl.distribution(folder, "9.9")
    return folder


def distribution(folder: Path):
    from importlib import metadata

    return metadata.PathDistribution(folder / "clusterctl-9.9.dist-info")


def test_it_is_the_same_every_time_and_its_record_is_right(installed: Path, tmp_path: Path) -> None:
    digests = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        path = wheel.rebuild_from(distribution(installed), tmp_path / name)
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        (installed / "clusterctl/errors.py").touch()
    assert digests[0] == digests[1]
    assert path.name == "clusterctl-9.9-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        record = archive.read("clusterctl-9.9.dist-info/RECORD").decode()
        rows = {row[0]: row for row in csv.reader(io.StringIO(record))}
        assert set(rows) == set(archive.namelist())
    assert "clusterctl-9.9.dist-info/INSTALLER" not in rows
    assert "clusterctl-9.9.dist-info/entry_points.txt" in rows


def test_programs_stay_programs_when_it_is_unpacked(installed: Path, tmp_path: Path) -> None:
    program = installed / "clusterctl/py.typed"
    program.chmod(0o755)
    path = wheel.rebuild_from(distribution(installed), tmp_path)
    target = tmp_path / "tree"
    version = unpack.unpack(VerifiedPackage("wheel", "wheel", path, path.name, "test", "0" * 64), target)
    assert version == "9.9"
    assert (target / "python/clusterctl/py.typed").stat().st_mode & 0o777 == 0o755
    assert (target / "python/clusterctl/errors.py").stat().st_mode & 0o777 == 0o644


def test_a_file_that_was_changed_since_is_named(installed: Path, tmp_path: Path) -> None:
    with (installed / "clusterctl/errors.py").open("a") as stream:
        stream.write("# changed\n")
    with pytest.raises(ImageError, match=r"clusterctl/errors\.py is not the file that was installed"):
        wheel.rebuild_from(distribution(installed), tmp_path)


def test_a_file_that_is_gone_is_named(installed: Path, tmp_path: Path) -> None:
    (installed / "clusterctl/errors.py").unlink()
    with pytest.raises(ImageError, match=r"errors\.py, which is part of clusterctl, cannot be read"):
        wheel.rebuild_from(distribution(installed), tmp_path)


def test_a_checkout_has_no_wheel_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ImageError, match="where it is not installed") as caught:
        wheel.rebuild(tmp_path)
    assert "--package wheel=" in (caught.value.hint or "")
