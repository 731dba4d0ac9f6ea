"""``image build`` and ``render dockerfile``: combine a base image and a collective library."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console, next_command
from clusterctl.cli.image.name import image_of
from clusterctl.cli.options import InventoryOption, JsonOption, LimitOption
from clusterctl.cli.render.output import emit, load
from clusterctl.cli.terminal import interrupt
from clusterctl.cli.terminal.progress import Progress
from clusterctl.errors import ArtifactError, UsageError
from clusterctl.report.text.table import columns

if TYPE_CHECKING:
    from clusterctl.images.build import Built
    from clusterctl.images.library import Library


class FamilyName(str, Enum):
    """Name the families of distributions, by package manager."""

    debian = "debian"
    rhel = "rhel"


BaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE",
        help="Base image, e.g. nvcr.io/nvidia/pytorch:25.05-py3, nvidia/cuda:12.8.1-devel-ubuntu24.04, "
        "debian:bookworm; default: the library's own base, if it has one.",
    ),
]
LibraryOption = Annotated[
    str, typer.Option(metavar="LIBRARY", help="ccore, nccl, accl, acspeed, aiacc, horovod or lightcc.")
]
PackageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--package",
        metavar="NAME=FILE#sha256=HEX",
        help="A package of the library, by path or URL; repeatable. The sha256 is required.",
    ),
]
NcclTestsOption = Annotated[
    str | None,
    typer.Option(
        metavar="ARCHIVE#sha256=HEX",
        help="Source archive of nccl-tests, by path or URL; built into the image if the base lacks nccl-tests.",
    ),
]


def build(
    *,
    base: BaseOption = None,
    library: LibraryOption = "ccore",
    package: PackageOption = None,
    library_version: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="The library's version, if its packages do not state it."),
    ] = None,
    nccl_tests: NcclTestsOption = None,
    tag: Annotated[
        str | None,
        typer.Option(metavar="NAME:TAG", help="The image's name; default: container.image of the inventory."),
    ] = None,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    pull: Annotated[bool, typer.Option("--pull", help="Pull a newer base image from its registry.")] = False,
    network: Annotated[
        str | None, typer.Option(metavar="MODE", help="Network mode of the build's commands, e.g. host.")
    ] = None,
    build_arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Pass this environment variable to the build, e.g. http_proxy; repeatable."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Build an image with a collective library inside.

    If the base lacks them, RDMA userspace, sshd without host keys and Open MPI are installed; the library is the
    last layer. A library that cannot work on the base is rejected before the build.

    Example: clusterctl image build --base debian:bookworm --tag registry.local/train:1
    """
    from clusterctl.images import build as building
    from clusterctl.images import engine

    found = _library(library)
    request = building.BuildRequest(
        library=found,
        base=_base(base, found),
        tag=tag or image_of(inventory, limit, option="the new image with --tag"),
        packages=tuple(_wanted(text) for text in package or ()),
        library_version=library_version,
        nccl_tests=_archive(nccl_tests),
        gpus=_gpus(inventory, limit),
        network=network,
        build_args=dict(_build_arg(name) for name in build_arg or ()),
        pull=pull,
    )
    left = "No image was tagged; the engine keeps the layers that were finished."
    with (
        interrupt.explained(left, "To continue"),
        engine.connect() as client,
        Progress("Building the image", done="Built the image") as progress,
    ):
        built = building.build(client, request, progress=progress.say)
    if json:
        console.emit_json(_document(built))
    else:
        console.data(_text(built))
    name = shlex.quote(built.tag)
    if _has_registry(built.tag):
        next_command.say(f"clusterctl image push {name}", "to its registry, from which 'up' pulls it")
    else:
        next_command.say(f"clusterctl image distribute {name}", "copies it to the nodes; then: clusterctl up")


def dockerfile(
    *,
    base: BaseOption = None,
    library: LibraryOption = "ccore",
    package: PackageOption = None,
    nccl_tests: NcclTestsOption = None,
    family: Annotated[
        FamilyName | None,
        typer.Option(help="The base's family of distributions, if its name does not show it."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the Dockerfile that 'image build' uses."""
    from clusterctl.artifacts import dockerfile as artifact
    from clusterctl.images import build as building
    from clusterctl.images import packages
    from clusterctl.images.library import UNPACKED, kind_of

    found = _library(library)
    image = _base(base, found)
    wanted = [_wanted(text) for text in package or ()]
    packages.ask(found, wanted, image)
    kind = family.value if family is not None else artifact.family_of(image)
    if kind is None:
        raise ArtifactError(
            f"cannot derive the distribution from the image name {image}",
            hint="add --family debian or --family rhel",
        )
    archive = _archive(nccl_tests)
    recipe = building.recipe(
        found,
        image,
        kind,
        installed=[w.file_name for w in wanted if kind_of(w.file_name) not in UNPACKED],
        nccl_tests=archive.file_name if archive is not None else None,
    )
    emit("dockerfile", artifact.render(recipe), json)


def _has_registry(image: str) -> bool:
    """Return whether an image's name begins with a registry, as docker reads it."""
    host, slash, _ = image.partition("/")
    return bool(slash) and (host == "localhost" or any(mark in host for mark in ".:"))


def _library(name: str) -> Library:
    from clusterctl.images import library

    return library.load(name)


def _base(base: str | None, library: Library) -> str:
    image = base or library.base
    if image is None:
        raise UsageError(
            "no base image was given",
            hint="add --base debian:bookworm (CPUs), nvidia/cuda:12.8.1-devel-ubuntu24.04, or NGC's PyTorch",
        )
    return image


def _wanted(text: str) -> Any:
    from clusterctl.images.packages import PackageReference

    return PackageReference.parse(text)


def _archive(text: str | None) -> Any:
    return _wanted(f"nccl-tests={text}") if text is not None else None


def _build_arg(name: str) -> tuple[str, str]:
    if "=" in name:
        raise UsageError(
            "--build-arg takes a variable's name without a value, so that command lines hold no secrets",
            hint=f"export {name.partition('=')[0]}=..., then --build-arg {name.partition('=')[0]}",
        )
    if name not in os.environ:
        raise UsageError(f"--build-arg {name}: this environment variable is not set")
    return name, os.environ[name]


def _gpus(inventory: Path | None, limit: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the nodes' GPUs from earlier runs of check; contact no node."""
    from clusterctl.facts.earlier import EarlierFacts
    from clusterctl.rundir import default_root

    facts = EarlierFacts(default_root(inventory), load(inventory, limit).nodes, present="")
    names = (gpu.name for node in facts.values() for gpu in node.gpu.devices.or_else(()))
    return tuple(dict.fromkeys(names))


def _document(built: Built) -> dict[str, Any]:
    from clusterctl.documents.image import (
        BaseImage,
        BuiltLibrary,
        ImageBuild,
    )

    base = built.base
    return ImageBuild(
        image=built.tag,
        id=built.id,
        size_bytes=built.size_bytes,
        layers=built.layers,
        base=BaseImage(name=base.name, id=base.id, digest=base.digest, os=base.os),
        library=BuiltLibrary(
            name=built.library,
            version=built.library_version,
            sha256=built.library_sha256,
            packages=built.manifest.packages,
            files=built.manifest.files,
        ),
        findings=built.findings,
        contents=built.contents,
        duration_s=round(built.duration_s, 1),
    ).document()


def _text(built: Built) -> str:
    count: dict[str, int] = {}
    for entry in built.contents:
        count[entry.kind] = count.get(entry.kind, 0) + 1
    programs = {entry.name: entry.version for entry in built.contents if entry.kind == "program"}
    rows = [
        ("image", f"{built.tag}  ({built.size_bytes / 1e6:.0f} MB, {len(built.layers)} layers)"),
        ("id", built.id),
        ("base", f"{built.base.name}  ({built.base.os}; {built.base.digest or built.base.id})"),
        ("library", f"{built.library} {built.library_version}"),
        ("sha256", built.library_sha256 or "-"),
        *((f"package {p.name}", f"{p.file}  sha256 {p.sha256}") for p in built.manifest.packages),
        *((kind, str(count[kind])) for kind in ("deb", "rpm", "wheel", "rdma-provider") if count.get(kind)),
        *programs.items(),
        *((finding.what, f"{finding.judgement.value}: {finding.reason}") for finding in built.findings),
    ]
    return columns(("", f"built in {built.duration_s:.1f} s"), rows, left=(0, 1))
