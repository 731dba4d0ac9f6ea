"""``version``: report the versions of clusterctl, of the packages that it uses, and of collective_core."""

from __future__ import annotations

import os
import sys
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl import __version__
from clusterctl.cli import console
from clusterctl.cli import options as cli

if TYPE_CHECKING:
    from clusterctl.documents.version import CoreVersion, Version

_PACKAGES = ("paramiko", "cryptography", "typer", "rich", "pydantic", "pyyaml", "jinja2", "docker", "torch")
_PARTS = {
    "collectives": "libcollective_core.so",
    "for GPU memory": "libcollective_core_cuda.so",
    "in front of NCCL": "libcollective_core_nccl.so",
    "NCCL net plugin": "libnccl-net-ccore.so",
    "NCCL tuner plugin": "libnccl-tuner-ccore.so",
}


def version(as_json: cli.JsonOption = False) -> None:
    """Print the versions of clusterctl, Python, packages and collective_core.

    Exit code 0: printed.
    """
    found = _version()
    if as_json:
        console.emit_json(found.document())
    else:
        console.data(_text(found))


def _version() -> Version:
    import platform

    from clusterctl.documents.version import PythonVersion, Version

    return Version(
        clusterctl=__version__,
        python=PythonVersion(version=platform.python_version(), executable=sys.executable),
        platform=platform.platform(),
        packages={name: _of_package(name) for name in _PACKAGES},
        collective_core=_core(),
    )


def _of_package(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _core() -> CoreVersion:
    from clusterctl.documents.version import CorePart, CoreVersion

    if util.find_spec("collective_core") is None:
        return CoreVersion(version=None, parts=(), programs=())
    import collective_core

    root = Path(collective_core.__file__).parent
    parts = tuple(
        CorePart(name=name, path=str(root / "lib" / name) if (root / "lib" / name).exists() else None)
        for name in _PARTS.values()
    )
    programs = sorted(path.name for path in (root / "bin").glob("*_perf") if os.access(path, os.X_OK))
    return CoreVersion(version=collective_core.__version__, parts=parts, programs=tuple(programs))


def _text(found: Version) -> str:
    core = found.collective_core
    rows = [
        ("clusterctl", found.clusterctl),
        ("Python", f"{found.python.version}  {found.python.executable}"),
        ("platform", found.platform),
        *((name, number or "not installed") for name, number in found.packages.items()),
        ("collective_core", core.version or "not installed"),
    ]
    titles = {file: title for title, file in _PARTS.items()}
    rows += [(f"  {titles[part.name]}", part.path or "not built") for part in core.parts]
    if core.version is not None:
        rows.append(
            ("  programs", ", ".join(name.removesuffix("_perf") for name in core.programs) or "not built")
        )
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)
