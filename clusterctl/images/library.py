"""Read and validate collective libraries: one file each in ``libraries/``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from clusterctl import resources
from clusterctl.errors import ImageError, UsageError
from clusterctl.inventory.field_types import VariableName
from clusterctl.inventory.frozen_model import Model
from clusterctl.text.closest import did_you_mean

FOLDER = Path(__file__).parent / "libraries"
INSIDE = "/opt/clusterctl/library"
"""Where an unpacked library lies in the image; its Python packages are in ``python/`` below."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
Kind = Literal["wheel", "deb", "archive", "rpm", "installer"]
UNPACKED: tuple[Kind, ...] = ("wheel", "deb", "archive")
"""Kinds that are unpacked into one layer of their own; the others run their own installation in the image."""
_SUFFIXES: dict[str, Kind] = {
    ".whl": "wheel",
    ".deb": "deb",
    ".rpm": "rpm",
    ".sh": "installer",
    ".run": "installer",
    ".tar.gz": "archive",
    ".tgz": "archive",
    ".tar.xz": "archive",
    ".txz": "archive",
    ".tar.bz2": "archive",
}


class LibraryPackage(Model):
    """One file that a library is made of."""

    name: Name
    """Its name in ``--package NAME=...``."""
    kinds: tuple[Kind, ...] = Field(min_length=1)
    """Its possible kinds, recognised by the file's suffix."""
    required: bool = True
    bundled: bool = False
    """Whether it is packed from what is installed beside clusterctl if ``--package`` does not name it."""
    what: str
    """What it is, and where it comes from."""


class LibraryVariable(Model):
    """A variable that the library reads while it runs."""

    name: VariableName
    default: str | None = None
    what: str


class Edit(Model):
    """A change of one of PyTorch's own files, which the library needs."""

    module: str
    """The Python module whose file it is."""
    torch: tuple[str, ...] = ()
    """The minor versions of PyTorch that need it; none named: all."""
    expressions: tuple[str, ...]
    """Expressions of sed; each one must change something."""


class RunByBench(Model):
    """How ``bench`` runs the library of a node's Python, and the vendor's proof that it is in use."""

    module: str
    """The Python module that a rank imports before it joins the others."""
    distribution: str
    """The name under which it is installed."""
    horovod: bool = False
    """Whether it has Horovod's API instead of a backend of torch.distributed."""
    torch: str = ""
    """The PyTorch that the vendor's published packages need, if it is too old for the programs of ``bench``."""
    backend: Literal["nccl", "accl"] = "nccl"
    """The backend of torch.distributed, where it has one."""
    collectives: bool = True
    """Whether it takes part in single collectives, and not only in a training."""
    preload: str | None = None
    """A file in the module's directory that each rank preloads."""
    environment: dict[VariableName, str] = Field(default_factory=dict)
    """Variables that the launch sets; those of the inventory take precedence."""
    says: str | None = None
    """The words with which it reports that it is in use; on at least one rank."""
    denies: dict[str, str] = Field(default_factory=dict)
    """Words with which it reports that it is not in use, to the reason."""


class Library(Model):
    """One collective library: its packages, and how a rank that uses it is recognised."""

    name: Name
    title: str
    sources: tuple[str, ...]
    """Where the facts of this file come from."""
    packages: tuple[LibraryPackage, ...] = ()
    base: str | None = None
    """The vendor's image, which has the library; the default base."""
    families: tuple[Literal["debian", "rhel"], ...] = ("debian", "rhel")
    soname: str | None = None
    """The soname that a shared library among the files must have."""
    environment: dict[VariableName, str] = Field(default_factory=dict)
    """Set in the image."""
    plugin: str | None = None
    """The package that is bound to a version of PyTorch."""
    torch_versions: dict[str, str] = Field(default_factory=dict)
    """PyTorch's minor version to the plugin's version."""
    edits: tuple[Edit, ...] = ()
    variables: tuple[LibraryVariable, ...] = ()
    mapped: str
    """A regular expression for the library's path in /proc/PID/maps."""
    beside: str | None = None
    """As ``mapped``, for further libraries that take part where they are loaded: plugins, libraries in front."""
    bench: RunByBench | None = None
    """None: ``bench`` does not run it, or runs it without any of this (nccl, ccore)."""
    version_program: str | None = None
    """Python code that loads the library like a rank and prints its version line; None: not known."""

    def comes_with(self, base: str) -> bool:
        """Tell whether a base image has the library, with the changes of PyTorch that it needs."""
        return base == self.base

    def package(self, name: str) -> LibraryPackage:
        """Return the package of this name; raise ImageError with the known names."""
        for package in self.packages:
            if package.name == name:
                return package
        known = ", ".join(package.name for package in self.packages) or "none: its image has all"
        raise ImageError(
            f"{self.title} has no package {name!r}", hint=f"--package NAME=FILE, with NAME of: {known}"
        )


def kind_of(file_name: str) -> Kind:
    """Return the kind of a package by its suffix; raise ImageError for one that cannot be installed."""
    for suffix, kind in _SUFFIXES.items():
        if file_name.lower().endswith(suffix):
            return kind
    raise ImageError(
        f"{file_name} is not a supported kind of package",
        hint=f"its name must end in {', '.join(_SUFFIXES)}",
    )


@cache
def names() -> tuple[str, ...]:
    """Return the names of all libraries."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def load(name: str) -> Library:
    """Return a library; raise UsageError with the known names."""
    if name not in names():
        raise UsageError(f"unknown library {name!r}", hint=did_you_mean(name, names()))
    return Library.model_validate(resources.table(FOLDER / f"{name}.yaml"))
