"""Read the tables of vendors' hardware and software: each is read and validated once, when it is first needed."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from clusterctl import resources

FOLDER = Path(__file__).parent

# The validators are built when a table is first read, not when a command starts.
_STRICT = ConfigDict(frozen=True, extra="forbid", defer_build=True)

Text = Annotated[str, StringConstraints(min_length=1)]
DeviceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}$")]
FunctionId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
Release = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+$")]

GpuTrait = Literal[
    "memory-of-the-cpu",
    "for-games",
    "joined-to-its-cpu",
    "forgets-mig",
    "nvlink-5",
    "rack",
    "without-switch",
]
MachineTrait = Literal["without-gpudirect", "guest-manages-nvlink-5", "infiniband-only-for-nvlink"]


class Sourced(BaseModel):
    """One row: what it states, and where this comes from."""

    model_config = _STRICT

    source: Text


class GpuTraitRow(Sourced):
    """The GPUs that have a trait, by words of their names and by PCI device IDs."""

    trait: GpuTrait
    names: tuple[Text, ...]
    devices: tuple[DeviceId, ...] = ()


class GpuPeak(Sourced):
    """The published rate of the tensor cores of some GPUs, for dense matrices of bf16."""

    name: Text
    bf16_tflops: float


class GpuGeneration(Sourced):
    """The first PCI device ID of a generation."""

    generation: Literal["turing", "blackwell"]
    first_device: DeviceId


class DriverBranch(Sourced):
    """A branch of NVIDIA's driver at which something changes."""

    change: Literal[
        "first-with-open-modules", "first-with-nvlink-5", "last-before-turing", "fabric-manager-renamed"
    ]
    branch: int


class GpuTables(BaseModel):
    """``gpus.yaml``."""

    model_config = _STRICT

    traits: tuple[GpuTraitRow, ...]
    peaks: tuple[GpuPeak, ...]
    generations: tuple[GpuGeneration, ...]
    branches: tuple[DriverBranch, ...]


class NicFunction(Sourced):
    """The PCI functions of one kind."""

    function: Literal["connectx-8", "connectx-8-data-direct", "efa-without-dma-buf"]
    ids: tuple[FunctionId, ...]


class NicDriver(Sourced):
    """A kernel driver of RDMA cards, with its provider in rdma-core and its support of DMA-BUF."""

    driver: Text
    provider: Text
    rdma_module: Text | None = None
    dma_buf_since: Release | None = None

    @property
    def dma_buf_kernel(self) -> tuple[int, int] | None:
        """The first Linux release whose driver registers DMA-BUF memory, or None."""
        if self.dma_buf_since is None:
            return None
        major, _, minor = self.dma_buf_since.partition(".")
        return int(major), int(minor)


class NicTables(BaseModel):
    """``nics.yaml``."""

    model_config = _STRICT

    functions: tuple[NicFunction, ...]
    drivers: tuple[NicDriver, ...]


class CloudMachines(Sourced):
    """The machines of a cloud that have a trait."""

    trait: MachineTrait
    cloud: Text
    product: Text | None = None


class CloudTables(BaseModel):
    """``clouds.yaml``."""

    model_config = _STRICT

    machines: tuple[CloudMachines, ...]


class RepositoryKey(Sourced):
    """The key that signs a repository, for all distributions or for some."""

    repository: Literal["cuda", "container-toolkit", "docker-apt", "docker-rpm"]
    distributions: tuple[Text, ...] = ()
    file: Text | None = None
    shipped: Text | None = None
    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{40}$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


class EndedDistribution(Sourced):
    """A distribution on which nothing is installed, because its general support ended."""

    distribution: Text
    version: Text
    end: date


class RepositoryTables(BaseModel):
    """``repositories.yaml``."""

    model_config = _STRICT

    keys: tuple[RepositoryKey, ...]
    ended: tuple[EndedDistribution, ...]


class LibraryVariables(Sourced):
    """The environment variables that a library of ranks reads."""

    library: Text
    prefix: Text
    """What all its variables begin with."""
    releases: Text | None = None
    """The first and the last release that was read, if there are several."""
    names: tuple[Text, ...]
    elsewhere: tuple[Text, ...] = ()
    """Variables of its plugins that resemble its own."""


class VariableTables(BaseModel):
    """``variables.yaml``."""

    model_config = _STRICT

    libraries: tuple[LibraryVariables, ...]


Tables = TypeVar("Tables", bound=BaseModel)


def read(name: str, model: type[Tables]) -> Tables:
    """Return the table of a file in this directory."""
    return model.model_validate(resources.table(FOLDER / f"{name}.yaml"))


@cache
def gpus() -> GpuTables:
    """Return the tables of GPUs and of their drivers."""
    return read("gpus", GpuTables)


@cache
def nics() -> NicTables:
    """Return the tables of network cards and of their drivers."""
    return read("nics", NicTables)


@cache
def clouds() -> CloudTables:
    """Return the tables of cloud machines."""
    return read("clouds", CloudTables)


@cache
def repositories() -> RepositoryTables:
    """Return the tables of package repositories."""
    return read("repositories", RepositoryTables)


def ended(distribution: str, version_id: str) -> date | None:
    """Return when the general support of a distribution ended; None for one on which packages are installed."""
    major = version_id.partition(".")[0]
    rows = repositories().ended
    return next((row.end for row in rows if (row.distribution, row.version) == (distribution, major)), None)


@cache
def variables() -> VariableTables:
    """Return the tables of environment variables."""
    return read("variables", VariableTables)


@cache
def _gpu_trait(trait: GpuTrait) -> tuple[re.Pattern[str], frozenset[str]]:
    row = next(row for row in gpus().traits if row.trait == trait)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, row.names))})\b", re.IGNORECASE), frozenset(
        row.devices
    )


def gpu_named(name: str, trait: GpuTrait) -> bool:
    """Return whether a GPU with this name (nvidia-smi's) has a trait."""
    return _gpu_trait(trait)[0].search(name) is not None


def gpu_with_id(device: str, trait: GpuTrait) -> bool:
    """Return whether an NVIDIA GPU with this PCI device ID has a trait."""
    return device in _gpu_trait(trait)[1]


@cache
def gpu_peak(name: str) -> GpuPeak | None:
    """Return the published peak of a GPU by its name (nvidia-smi's), or None if it is not known."""
    words = set(name.upper().replace("-", " ").split())
    found = [row for row in gpus().peaks if set(row.name.upper().split()) <= words]
    return max(found, key=lambda row: len(row.name.split()), default=None)


@cache
def first_device(generation: str) -> int:
    """Return the first PCI device ID of a GPU generation."""
    return next(int(row.first_device, 16) for row in gpus().generations if row.generation == generation)


@cache
def branch(change: str) -> int:
    """Return the branch of NVIDIA's driver at which something changes."""
    return next(row.branch for row in gpus().branches if row.change == change)


@cache
def nic_function(function: str) -> frozenset[tuple[str, str]]:
    """Return the PCI vendor and device IDs of a kind of function."""
    ids = next(row.ids for row in nics().functions if row.function == function)
    return frozenset((vendor, device) for vendor, _, device in (text.partition(":") for text in ids))


@cache
def nic_drivers() -> dict[str, NicDriver]:
    """Return the kernel drivers of RDMA cards by name."""
    return {row.driver: row for row in nics().drivers}


def machine_has(cloud: str | None, product: str, trait: MachineTrait) -> bool:
    """Return whether a machine of a cloud, by its firmware's product name, has a trait."""
    return any(
        row.trait == trait and row.cloud == cloud and re.match(row.product or "", product) is not None
        for row in clouds().machines
    )


def repository_key(repository: str, distribution: str | None = None) -> RepositoryKey | None:
    """Return the key of a repository for a distribution, or None if its key is not known."""
    for key in repositories().keys:
        if key.repository == repository and (not key.distributions or distribution in key.distributions):
            return key
    return None
