"""clusterctl as pip installs it, in a folder of its own: the files by RECORD, the library inside.

Where the tests run an installed clusterctl it is that one; where they run a checkout, the folder is laid out like the
wheel (pyproject.toml, tool.scikit-build.wheel.packages) with the library that CCORE_LIBRARY names.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from importlib import metadata
from pathlib import Path

import clusterctl
import collective_core

_CHECKOUT = Path(__file__).resolve().parents[2]


def distribution(folder: Path, version: str | None = None) -> metadata.Distribution:
    """Return the installed distribution; with ``version``, another that differs in nothing but that."""
    for found in metadata.distributions(name="clusterctl"):
        names = {str(file): file for file in found.files or ()}
        first = names.get("clusterctl/__init__.py")
        if version is not None or first is None:
            continue
        if Path(str(found.locate_file(first))).resolve() == Path(clusterctl.__file__).resolve():
            return found
    return _laid_out(folder, version or "0.1.0")


def _laid_out(folder: Path, version: str) -> metadata.Distribution:
    ignore = shutil.ignore_patterns("__pycache__")
    package = Path(clusterctl.__file__).parent
    shutil.copytree(package, folder / "clusterctl", ignore=ignore)
    for name in ("templates", "inventories"):
        if not (folder / "clusterctl" / name).is_dir():
            shutil.copytree(_CHECKOUT / name, folder / "clusterctl" / name, ignore=ignore)
    shutil.copytree(Path(collective_core.__file__).parent, folder / "collective_core", ignore=ignore)
    library = os.environ.get("CCORE_LIBRARY")
    if library and not (folder / "collective_core/lib").is_dir():
        (folder / "collective_core/lib").mkdir()
        shutil.copyfile(library, folder / "collective_core/lib/libcollective_core.so")
        (folder / "collective_core/bin").mkdir()
        for program in Path(library).parent.glob("*_perf"):
            shutil.copy(program, folder / "collective_core/bin")
    info = folder / f"clusterctl-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: clusterctl\nVersion: {version}\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nclusterctl = clusterctl.cli.main:main\n\n"
        "[torch.backends]\ncollective_core = collective_core.autoload:register\n"
    )
    (info / "INSTALLER").write_text("pip\n")
    lines = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest = (
                base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            )
            lines.append(f"{path.relative_to(folder).as_posix()},sha256={digest},{path.stat().st_size}\n")
    lines.append(f"{info.name}/RECORD,,\n")
    (info / "RECORD").write_text("".join(lines))
    return metadata.PathDistribution(info)
