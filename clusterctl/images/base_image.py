"""The contents of a base image, read in a temporary container without network."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl import resources
from clusterctl.artifacts.dockerfile import Family
from clusterctl.errors import ImageError
from clusterctl.images import engine, throwaway
from clusterctl.images.layers import Layers
from clusterctl.text.grouping import by_first_word

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

Version = tuple[int, ...]

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class BaseImage:
    """A base image; None for each part that it does not have."""

    name: str
    id: str
    digest: str | None
    """Its digest in its registry; None: it came from no registry."""
    family: Family
    os: str
    glibc: Version
    glibcxx: Version | None
    """The newest GLIBCXX symbol version of its libstdc++."""
    python: Version | None
    torch: str | None
    cuda: str | None
    mpirun: str | None
    all_reduce_perf: str | None
    machine: str | None = None
    """The kernel's and wheels' name of the architecture: x86_64, aarch64; None: not known."""


def obtain(
    client: docker.DockerClient, name: str, *, pull: bool = False, progress: Callable[[str], None]
) -> BaseImage:
    """Return the contents of the base image; it is pulled if the engine lacks it, or with ``pull``.

    Raise ImageError for one of another architecture, without a shell, with musl, or of neither family.
    """
    image = _image(client, name, pull, progress)
    _same_machine(client, name, image)
    return parse(name, image, _ask(client, name, image))


def parse(name: str, image: Image, answers: dict[str, list[str]]) -> BaseImage:
    """Return the base from its container's output; ``answers`` has every value of each key."""

    def first(key: str) -> str | None:
        return answers[key][0] if key in answers else None

    ids = set((first("ids") or "").split())
    if "musl" in answers:
        raise ImageError(
            f"{name} ({first('os') or 'unknown'}) has musl, but collective libraries need glibc",
            hint="use a base of Debian, Ubuntu or the RHEL family",
        )
    if ids & {"debian", "ubuntu"}:
        family: Family = "debian"
    elif ids & {"rhel", "fedora", "centos", "rocky", "almalinux"}:
        family = "rhel"
    else:
        raise ImageError(
            f"{name} ({first('os') or 'without /etc/os-release'}) is neither of Debian's nor of the RHEL family",
            hint="use a base of Debian, Ubuntu, or a rebuild of RHEL",
        )
    glibc = version(first("glibc") or "")
    if glibc is None or "manager" not in answers:
        lacking = "glibc" if glibc is None else "package manager"
        raise ImageError(f"{name} has no {lacking}", hint="use the distribution's own image as the base")
    newest = [found for found in map(version, answers.get("glibcxx", ())) if found is not None]
    digests = [text.rpartition("@")[2] for text in image.attrs.get("RepoDigests") or ()]
    return BaseImage(
        name=name,
        id=str(image.id),
        digest=digests[0] if digests else None,
        family=family,
        os=first("os") or "",
        glibc=glibc,
        glibcxx=max(newest, default=None),
        python=version(first("python") or ""),
        torch=first("torch"),
        cuda=first("cuda"),
        mpirun=first("mpirun"),
        all_reduce_perf=first("all_reduce_perf"),
        machine=next((m for m, other in _MACHINES.items() if other == image.attrs.get("Architecture")), None),
    )


def version(text: str) -> Version | None:
    """Return the first dotted number in a text: ``GLIBCXX_3.4.30`` is (3, 4, 30)."""
    found = re.search(r"\d{1,9}(\.\d{1,9})*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else None


def dotted(version: Version) -> str:
    """Return a version as it is written."""
    return ".".join(map(str, version))


def _image(client: docker.DockerClient, name: str, pull: bool, progress: Callable[[str], None]) -> Image:
    import docker

    if not pull:
        try:
            return client.images.get(name)
        except docker.errors.ImageNotFound:
            pass
    try:
        layers = Layers(f"pulling {name}")
        for message in client.api.pull(*_pull_words(name), stream=True, decode=True):
            if "error" in message:
                raise _cannot_pull(name, str(message["error"]))
            progress(layers.heard(message))
        return client.images.get(name)
    except docker.errors.APIError as error:
        raise _cannot_pull(name, str(error.explanation or error)) from None


def _pull_words(name: str) -> tuple[str, str | None]:
    if "@" in name:
        return name, None
    head, slash, last = name.rpartition("/")
    bare, _, tag = last.partition(":")
    return f"{head}{slash}{bare}", tag or "latest"


def _cannot_pull(name: str, said: str) -> ImageError:
    return ImageError(f"the base image {name} cannot be pulled: {said.strip()}", hint=engine.hint(said))


def _same_machine(client: docker.DockerClient, name: str, image: Image) -> None:
    found = str(image.attrs.get("Architecture") or "")
    wanted = str(client.version().get("Arch") or "")
    if found and wanted and _MACHINES.get(found, found) != _MACHINES.get(wanted, wanted):
        raise ImageError(
            f"{name} is an image for {found}, and the docker engine runs on {wanted}",
            hint=f"name a base for {wanted}: docker manifest inspect {name} lists what there is",
        )


def _ask(client: docker.DockerClient, name: str, image: Image) -> dict[str, list[str]]:
    import docker

    script = resources.text("templates", "docker", "probe-base.sh")
    try:
        answer = throwaway.run(client, str(image.id), script)
    except docker.errors.APIError as error:
        said = str(error.explanation or error)
        if "/bin/sh" in said and "no such file" in said:
            raise ImageError(
                f"{name} has no shell: nothing can be installed in it",
                hint="use a base with a shell and a package manager, not a distroless one",
            ) from None
        raise ImageError(f"no container of {name} can be started: {said}", hint=engine.hint(said)) from None
    if answer.status != 0:
        said = answer.stderr.strip()[-300:]
        raise ImageError(f"a container of {name} cannot report its contents: {said}", hint=engine.hint(said))
    return by_first_word(answer.stdout)
