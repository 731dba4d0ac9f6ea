"""collective_core as pip installs it: the files by RECORD, the library inside.

Where its distribution is installed it is that one; elsewhere its files are laid out in a directory like its wheel,
with the library that CCORE_LIBRARY names.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from importlib import metadata
from pathlib import Path

import collective_core

NAME = "collective_core"


def distribution(folder: Path, version: str | None = None) -> metadata.Distribution:
    """Return the installed distribution; with ``version``, another that differs in nothing but that."""
    for found in () if version else metadata.distributions(name=NAME):
        first = Path(str(found.locate_file(f"{NAME}/__init__.py")))
        if first.is_file() and first.samefile(collective_core.__file__):
            return found
    return _laid_out(folder, version or collective_core.__version__)


def _laid_out(folder: Path, version: str) -> metadata.Distribution:
    package = folder / NAME
    shutil.copytree(
        Path(collective_core.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    library = os.environ.get("CCORE_LIBRARY")
    if library and not (package / "lib").is_dir():
        (package / "lib").mkdir()
        shutil.copyfile(library, package / "lib/libcollective_core.so")
        (package / "bin").mkdir()
        for program in Path(library).parent.glob("*_perf"):
            shutil.copy(program, package / "bin")
    info = folder / f"{NAME}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    (info / "entry_points.txt").write_text(
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
