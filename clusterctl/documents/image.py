"""``image``: images with a collective library, and the proof that ranks use it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part, Sparse
from clusterctl.documents.evidence import Closed, CompatibilityFinding, SoftwareVersions
from clusterctl.documents.words import Success


class LibraryPackage(Part):
    """One package of a library."""

    name: str
    file: str
    source: str
    sha256: str


class LibraryFile(Sparse):
    """One file of a library; ``soname`` only for a shared library that names itself."""

    path: str
    size_bytes: int
    sha256: str
    soname: str | None = None


class ImageLibrary(Document):
    """The manifest beside the library in an image."""

    schema_: Literal["clusterctl.image-library/1"] = Field(
        default="clusterctl.image-library/1", alias="schema"
    )
    library: str
    title: str
    version: str
    packages: tuple[LibraryPackage, ...]
    files: tuple[LibraryFile, ...]


class BaseImage(Part):
    """The image that was extended."""

    name: str
    id: str
    digest: str | None
    os: str


class BuiltLibrary(Part):
    """The library in an image."""

    name: str
    version: str
    sha256: str | None
    packages: tuple[LibraryPackage, ...]
    files: tuple[LibraryFile, ...]


@dataclass(frozen=True, slots=True)
class ContentEntry(Closed):
    """One entry of the image's contents: ``deb openssh-server 1:9.2p1``."""

    kind: str
    name: str
    version: str


class ImageBuild(Document):
    """``clusterctl image build --json``."""

    schema_: Literal["clusterctl.image-build/1"] = Field(default="clusterctl.image-build/1", alias="schema")
    image: str
    id: str
    size_bytes: int
    layers: tuple[str, ...]
    base: BaseImage
    library: BuiltLibrary
    findings: tuple[CompatibilityFinding, ...]
    contents: tuple[ContentEntry, ...]
    duration_s: float


class ImagePush(Document):
    """``clusterctl image push --json``."""

    schema_: Literal["clusterctl.image-push/1"] = Field(default="clusterctl.image-push/1", alias="schema")
    image: str
    digest: str
    size_bytes: int


class DistributionStatus(str, Enum):
    """Name how a node got the image."""

    PRESENT = "present"
    PULLED = "pulled"
    RECEIVED = "received"
    FAILED = "failed"


class DistributedImage(Part):
    """The image of one node; ``source`` is the sending node, "controller" or "registry"."""

    name: str
    status: DistributionStatus
    source: str | None
    sent_bytes: int
    error: str | None


class ImageDistribute(Document):
    """``clusterctl image distribute --json``."""

    schema_: Literal["clusterctl.image-distribute/1"] = Field(
        default="clusterctl.image-distribute/1", alias="schema"
    )
    image: str
    id: str | None
    method: str | None
    archive_bytes: int
    controller_bytes: int
    nodes: tuple[DistributedImage, ...]


@dataclass(frozen=True, slots=True)
class LibraryProof(Closed):
    """One library in one process; ``rank`` is a number, ``slot N`` if started for the proof, or ``-``."""

    rank: str
    pid: int
    sha256: str
    path: str

    @property
    def name(self) -> str:
        """Return the file's name."""
        return PurePosixPath(self.path.removesuffix(" (deleted)")).name


class ProvenNode(Part):
    """The libraries of the ranks on one node; ``started``: no rank ran, processes were started for the proof."""

    name: str
    error: None
    container: str
    image: str
    """One checksum over the image's layers; engines with different stores give the same image different ids."""
    library: str
    expected_sha256: str | None
    """The checksum in the image's label; null without the label."""
    ranks: tuple[LibraryProof, ...]
    versions: tuple[str, ...]
    errors: tuple[str, ...]
    started: bool
    beside: tuple[LibraryProof, ...] = ()
    """Further libraries in these processes: collective_core in front of NCCL or on the GPU, NCCL's plugins."""


class UnprovenNode(Part):
    """A node that did not answer."""

    name: str
    error: str


class ImageProve(Document):
    """``clusterctl image prove --json``."""

    schema_: Literal["clusterctl.image-prove/1"] = Field(default="clusterctl.image-prove/1", alias="schema")
    status: Success
    nodes: tuple[ProvenNode | UnprovenNode, ...]
    findings: tuple[str, ...]


class ImageShow(Document):
    """``clusterctl image show --json``: the versions in the image and on the nodes, and what does not fit together."""

    schema_: Literal["clusterctl.image-show/1"] = Field(default="clusterctl.image-show/1", alias="schema")
    status: Success
    images: tuple[str, ...]
    versions: SoftwareVersions
    errors: dict[str, str]
    """The nodes that did not answer, and why."""
