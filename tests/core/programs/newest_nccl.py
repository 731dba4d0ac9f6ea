"""Compares releases of NCCL from PyPI with what collective_core has of NCCL's names. Prints one line per release.

Exits 1 if a release differs. Without VERSION it takes the newest release.

    `newest_nccl.py [--plugin FILE] [VERSION...]`

For each release, 300 MB are downloaded, and NCCL runs on the CPU; no GPU is needed:

- NCCL's own functions look for the net and tuner plugin in `libnccl-net-ccore.so`, the newest version first, and have
  to load the newest that they have.
- Every function that `nccl.h` declares has to be in `nccl_functions.txt`, which says whether the library in front of
  NCCL takes it over.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RECORDED = Path(__file__).with_name("nccl_functions.txt")
PACKAGE = "nvidia-nccl-cu13"
DECLARED = re.compile(r"^\s*(?:ncclResult_t|const char\s*\*|void)\s*(nccl\w+)\s*\(", re.M)
LOADER = re.compile(r"^([0-9a-f]+) \w (_Z\d+getNccl(Net|Tuner)_v(\d+)Pv)$", re.M)


def recorded() -> dict[str, str]:
    """Return the functions of the file: `taken` or `left`, by name."""
    lines = (line.split() for line in RECORDED.read_text().splitlines() if not line.startswith("#"))
    return {line[0]: line[1] for line in lines}


def fetch(version: str, into: Path) -> Path:
    """Unpack the wheel of a release (empty: the newest), and return the directory of NCCL in it."""
    wanted = f"{PACKAGE}=={version}" if version else PACKAGE
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
    subprocess.run((*pip, "--dest", str(into), wanted), check=True, timeout=1800)
    (wheel,) = into.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    wheel.unlink()
    return into / "nvidia" / "nccl"


def loaded_plugins(library: Path, plugin: Path) -> dict[str, int]:
    """Return the newest version of each plugin that NCCL's functions know, if they load it from our library; else 0.

    NCCL calls these functions only when it has found a GPU. They are not exported, so their places come from the symbol
    table.
    """
    symbols = subprocess.run(
        ("nm", str(library)), capture_output=True, text=True, timeout=600, check=True
    ).stdout
    (exported,) = re.findall(r"^([0-9a-f]+) [TW] ncclGetVersion$", symbols, re.M)
    nccl, ours = ctypes.CDLL(str(library)), ctypes.CDLL(str(plugin))
    address = ctypes.cast(nccl.ncclGetVersion, ctypes.c_void_p).value
    assert address is not None
    loaders: dict[str, list[tuple[int, int]]] = {}
    for place, _, kind, version in LOADER.findall(symbols):
        loaders.setdefault(kind, []).append((int(version), int(place, 16)))
    found = {}
    for kind, versions in loaders.items():
        version, place = max(versions)
        load = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address - int(exported, 16) + place)
        table = load(ours._handle)
        # The table that NCCL then uses begins with the name.
        name = (
            ctypes.cast(ctypes.c_void_p.from_address(table).value or 0, ctypes.c_char_p).value
            if table
            else None
        )
        found[kind] = version if name == b"ccore" else 0
    return found


def compare(nccl: Path, plugin: Path) -> list[str]:
    """Return in which ways a release differs from what collective_core has."""
    declared = set(DECLARED.findall((nccl / "include" / "nccl.h").read_text()))
    faults = [f"{name} is not in {RECORDED.name}" for name in sorted(declared - set(recorded()))]
    plugins = loaded_plugins(nccl / "lib" / "libnccl.so.2", plugin)
    print(
        ", ".join(f"{kind.lower()} plugin v{version}" for kind, version in sorted(plugins.items())),
        flush=True,
    )
    if set(plugins) != {"Net", "Tuner"}:
        faults.append("NCCL's functions that load plugins were not found in its symbol table")
    faults += [
        f"NCCL loads no {kind.lower()} plugin of ours in its newest version"
        for kind, v in plugins.items()
        if not v
    ]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--plugin", type=Path, help="libnccl-net-ccore.so (default: of the installed collective_core)"
    )
    parser.add_argument("versions", nargs="*", default=[""], metavar="VERSION")
    given = parser.parse_args()
    if given.plugin is None:
        from collective_core import nccl_plugins

        given.plugin = nccl_plugins.plugin_path()
    failed = False
    for version in given.versions:
        with tempfile.TemporaryDirectory(prefix="newest-nccl-") as scratch:
            nccl = fetch(version, Path(scratch))
            header = (nccl / "include" / "nccl.h").read_text()
            numbers = re.findall(r"^#define NCCL_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M)
            print("NCCL", ".".join(numbers), end=": ", flush=True)
            faults = compare(nccl, given.plugin)
        for fault in faults:
            print(f"    {fault}", flush=True)
        failed |= bool(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
