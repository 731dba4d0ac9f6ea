"""Run a library that a node's Python has: refuse it by name where it is missing, set its variables, and prove it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import urlencode

from clusterctl.errors import UsageError
from clusterctl.facts.model.python import OLDEST_TORCH, InstalledLibrary
from clusterctl.images import library as libraries
from clusterctl.images.library import RunByBench
from clusterctl.launch.environment import Library
from clusterctl.trust.foreign_library import VendorProof
from clusterctl.workloads.foreign_library import VARIABLE

FOREIGN: tuple[Library, ...] = ("accl", "acspeed", "aiacc", "horovod", "lightcc")
"""The libraries of others that ``bench`` runs, as the files in ``images/libraries`` describe them."""
WITH_HOROVOD_API: tuple[Library, ...] = ("horovod", "lightcc")


def described(name: Library | None) -> tuple[libraries.Library, RunByBench] | None:
    """Return the description of a library of others; None for the libraries that bench knows itself."""
    if name not in FOREIGN:
        return None
    found = libraries.load(name)
    assert found.bench is not None, name
    return found, found.bench


def wanted(name: Library | None) -> str:
    """Return what the probe looks for on a node: the module and the distribution; empty for no such library."""
    known = described(name)
    return "" if known is None else f"{known[1].module} {known[1].distribution}"


def missing(name: Library, installed: InstalledLibrary | None, python: str) -> tuple[str, str] | None:
    """Return why the Python of a node cannot run the library, and what to do; None if it can."""
    known = described(name)
    if known is None or installed is not None:
        return None
    found, bench = known
    why = f"{found.title} is not installed for {python}: expected the module {bench.module} of {bench.distribution}"
    if bench.torch:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return why, (
            f"the vendor's published packages are for torch {bench.torch}, and bench needs {oldest} or newer: run your "
            "own script on the older torch with launch, or ask the vendor for a package for the newer one"
        )
    return why, (
        f"install it there, or set `python` in the inventory to a Python that has it; image build --library {name}, up "
        "and bench --containers measure in an image"
    )


def variables(name: Library, installed: Mapping[str, InstalledLibrary | None]) -> dict[str, str]:
    """Return the variables that a launch sets for the library; empty for the libraries that bench knows itself.

    ``installed`` has what each node has, by its name. The variable of clusterctl tells a rank what to import, and which
    of its mapped files are the library's.
    """
    known = described(name)
    if known is None:
        return {}
    found, bench = known
    told = {
        "name": found.name, "title": found.title, "module": bench.module, "distribution": bench.distribution,
        "mapped": found.mapped,
    }  # fmt: skip
    # Encoded: launchers treat commas, semicolons and quotes of values in different ways.
    chosen = {**bench.environment, VARIABLE: urlencode(told)}
    # A node without the library, which is refused before the launch, has no directory.
    folders = {there.path: node for node, there in installed.items() if there is not None}
    if bench.preload is None or not folders:
        return chosen
    if len(folders) > 1:
        listed = ", ".join(f"{node}: {folder}" for folder, node in folders.items())
        raise UsageError(
            f"{found.title} is in different directories ({listed})",
            hint="install it at the same path on all nodes",
        )
    return {**chosen, "LD_PRELOAD": str(PurePosixPath(*folders) / bench.preload)}


def proof(name: Library) -> VendorProof | None:
    """Return what must prove that the ranks use the library; None for the libraries that bench knows itself."""
    known = described(name)
    if known is None:
        return None
    found, bench = known
    return VendorProof(found.title, bench.says, tuple(bench.denies.items()))
