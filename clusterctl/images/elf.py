"""Names and requirements of shared libraries, read with binutils' readelf on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.errors import ImageError

_MAGIC = b"\x7fELF"
_TIMEOUT_S = 120
_NEEDED = re.compile(r"Name: (GLIBC|GLIBCXX|CXXABI)_([0-9]{1,9}(?:\.[0-9]{1,9}){0,5})\s")
_TAG = re.compile(r"\((SONAME|NEEDED)\)[^\[\n]{0,200}\[([^\[\]\n]*)\]")
_MACHINE = re.compile(r"Machine:\s+(.+)")
READELF = "readelf"


@dataclass(frozen=True, slots=True)
class ElfNeeds:
    """One ELF file: its own name, the libraries and the newest symbol versions that it needs."""

    path: Path
    machine: str
    soname: str | None
    libraries: tuple[str, ...]
    versions: dict[str, tuple[int, ...]]
    """``GLIBC``, ``GLIBCXX`` and ``CXXABI`` to the newest version of their symbols."""


def elf_files(folder: Path) -> tuple[Path, ...]:
    """Return the programs and shared libraries below a directory."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as stream:
                if stream.read(len(_MAGIC)) == _MAGIC:
                    found.append(path)
    return tuple(found)


def available() -> bool:
    """Return whether this machine has readelf."""
    return shutil.which(READELF) is not None


def read(paths: Sequence[Path]) -> tuple[ElfNeeds, ...]:
    """Return what each file needs; raise ImageError for one that readelf cannot read."""
    return tuple(_one(path) for path in paths)


def _one(path: Path) -> ElfNeeds:
    # Version requirements (-V) instead of all symbols: this is fast even for a library of 300 MB.
    argv = (READELF, "--wide", "--file-header", "--dynamic", "--version-info", str(path))
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageError(f"{READELF} cannot read {path.name}: {error}") from None
    broken = "Error:" in done.stderr  # its exit status is 0 even for a truncated file
    if done.returncode != 0 or broken or "Machine:" not in done.stdout:
        raise ImageError(
            f"{path.name} is not a valid ELF file: {done.stderr.strip()[:200]}",
            hint="check that the package is complete",
        )
    versions: dict[str, tuple[int, ...]] = {}
    for kind, text in _NEEDED.findall(done.stdout):
        number = tuple(int(part) for part in text.split("."))
        versions[kind] = max(versions.get(kind, ()), number)
    tags = _TAG.findall(done.stdout)
    machine = _MACHINE.search(done.stdout)
    return ElfNeeds(
        path=path,
        machine=machine[1].strip() if machine else "",
        soname=next((value for tag, value in tags if tag == "SONAME"), None),
        libraries=tuple(value for tag, value in tags if tag == "NEEDED"),
        versions=versions,
    )
