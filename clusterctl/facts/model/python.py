"""The Python that ranks run in, and what an environment of its own could be made from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterctl.facts.base import Part
from clusterctl.facts.model.services import Package

OLDEST_TORCH = (2, 4)
"""The oldest release of torch that clusterctl's programs for nodes run on."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class InstalledLibrary(Part):
    """A collective library that is installed for a Python: its version, and the directory of its module."""

    version: str
    path: str


@dataclass(frozen=True, slots=True)
class PythonFacts(Part):
    """A Python and what is installed for it; ``version`` is None if it does not run."""

    path: str
    version: str | None = None
    torch: str | None = None
    core_perf: str | None = None
    """The path of collective_core's program of the requested name."""
    library: InstalledLibrary | None = None
    """The requested library of others."""
    packages: tuple[Package, ...] = ()
    """Those of CUDA, cuDNN, NCCL and collective libraries that are installed for it."""

    def package(self, *names: str) -> str | None:
        """Return the version of the first of these packages that is installed, or None."""
        there = {package.name: package.version for package in self.packages}
        return next((there[name] for name in names if name in there), None)

    @property
    def release(self) -> tuple[int, int] | None:
        """Return the major and minor version; None if it does not run, or reports another form."""
        return release_of(self.version)


@dataclass(frozen=True, slots=True)
class DistributionPython(Part):
    """An interpreter of the distribution (``/usr/bin/python3.11``), and whether it has venv and ensurepip."""

    path: str
    minor: int
    has_venv: bool
    has_ensurepip: bool
    is_default: bool
    """Whether ``/usr/bin/python3`` is this one."""


@dataclass(frozen=True, slots=True)
class PythonEnvironment(Part):
    """The environment at clusterctl's place on the node.

    ``run``: the run of bootstrap that made it; None if clusterctl did not. ``content``: what it was made with, empty
    while it is being made, or after that was interrupted.
    """

    run: str | None = None
    content: str = ""

    @property
    def is_complete(self) -> bool:
        """Return whether its installation ended; true of one that clusterctl did not make."""
        return self.run is None or bool(self.content)

    def differs(self, content: str) -> bool:
        """Return whether clusterctl made it with another content than this."""
        return self.run is not None and self.content != content


@dataclass(frozen=True, slots=True)
class NodePython(Part):
    """The Python of the node's ranks, and what its requirement needs to make one."""

    ranks: PythonFacts | None = None
    """The one that the inventory names, or else the first of clusterctl's own environment and python3 on the PATH."""
    environment: PythonEnvironment | None = None
    distribution: tuple[DistributionPython, ...] = ()
    glibc: str | None = None
    """The version of the C library; None for another one, or if unknown."""


def release_of(version: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version; None without a version that starts with them."""
    found = _RELEASE.match(version or "")
    return None if found is None else (int(found[1]), int(found[2]))


def is_old_torch(version: str | None) -> bool:
    """Return whether torch is older than the programs need; a version that cannot be read is not."""
    found = release_of(version)
    return found is not None and found < OLDEST_TORCH
