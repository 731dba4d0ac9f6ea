"""Building an image: inspect the base, check the library against it, then build with docker."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from clusterctl import log, resources
from clusterctl.artifacts.dockerfile import ModuleEdit, Recipe, render, require_reference
from clusterctl.documents.evidence import CompatibilityFinding
from clusterctl.documents.image import ContentEntry, ImageLibrary
from clusterctl.documents.kinds import Compatibility
from clusterctl.errors import ImageError
from clusterctl.images import base_image, bundle, compatibility, engine, gpu_code, packages
from clusterctl.images.base_image import BaseImage
from clusterctl.images.library import INSIDE, Library
from clusterctl.images.packages import PackageReference
from clusterctl.images.push import split
from clusterctl.images.throwaway import LABEL as LABEL_OF_PROBES

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

_logger = log.get(__name__)
LABEL = "clusterctl.library"
PACKAGES_FILE = "/opt/clusterctl/packages.tsv"
_SCRIPTS = ("start-sshd", "record-packages")
_TAIL_LINES, _TAIL_CHARACTERS = 20, 16384
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """A build: base, library, packages and name."""

    library: Library
    base: str
    tag: str
    packages: tuple[PackageReference, ...] = ()
    library_version: str | None = None
    nccl_tests: PackageReference | None = None
    gpus: tuple[str, ...] = ()
    """Names of the nodes' GPUs, as far as they are known."""
    network: str | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    pull: bool = False


_STEP = re.compile(r"Step (\d{1,6})/(\d{1,6}) : ")


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built, with its contents."""

    tag: str
    id: str
    size_bytes: int
    layers: tuple[str, ...]
    """Their digests, the library's last."""
    base: BaseImage
    library: str
    library_version: str
    library_sha256: str | None
    findings: tuple[CompatibilityFinding, ...]
    manifest: ImageLibrary
    """The library's manifest in the image."""
    contents: tuple[ContentEntry, ...]
    duration_s: float


def recipe(
    library: Library,
    base: str,
    family: str,
    *,
    installed: Sequence[str] = (),
    nccl_tests: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Recipe:
    """Return the values for the Dockerfile's template."""
    return Recipe(
        base=base,
        family="rhel" if family == "rhel" else "debian",
        title=library.title,
        inside=INSIDE,
        environment=library.environment,
        edits=()
        if library.comes_with(base)
        else tuple(ModuleEdit(edit.module, edit.expressions, edit.torch) for edit in library.edits),
        installed=tuple(installed),
        nccl_tests=nccl_tests,
        labels=labels or {},
    )


def labels(library: Library, base: str, *, version: str, sha256: str | None) -> dict[str, str]:
    """Return the image's labels: those of the OCI image specification, and the library's own."""
    said = {
        "org.opencontainers.image.title": library.title,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.base.name": base,
        LABEL: library.name,
        f"{LABEL}.version": version,
    }
    return said | ({f"{LABEL}.sha256": sha256} if sha256 is not None else {})


def build(client: docker.DockerClient, request: BuildRequest, *, progress: Callable[[str], None]) -> Built:
    """Build the image and return its contents; it is tagged only if every step succeeded.

    ``progress`` is called with one short line at a time. Raise ImageError for packages with a wrong sha256 or kind, for
    a base that does not fit the library, and for errors of the engine or of a command in the image.
    """
    started = time.monotonic()
    for name in (request.base, request.tag):
        require_reference(name)
    split(request.tag)
    packages.ask(request.library, request.packages, request.base)
    base = base_image.obtain(client, request.base, pull=request.pull, progress=progress)
    with tempfile.TemporaryDirectory(prefix="clusterctl-image-") as name:
        folder = Path(name)
        with _room():
            made = bundle.make(
                request.library,
                request.packages,
                folder,
                base=request.base,
                version=request.library_version,
                progress=progress,
            )
            nccl_tests = _nccl_tests(request.nccl_tests, folder, progress)
        findings = compatibility.judge(
            request.library, made.packages, made.needs, base,
            architectures=gpu_code.architectures(client, base.id, made.needs), gpus=request.gpus,
        )  # fmt: skip
        _refuse(request.library, findings)
        text = render(
            recipe(
                request.library, request.base, base.family, installed=made.installed, nccl_tests=nccl_tests,
                labels=labels(request.library, request.base, version=made.version, sha256=made.sha256),
            )
        )  # fmt: skip
        image = client.images.get(_run(client, request, folder, text, progress))
        contents = _contents(client, str(image.id))
        _require(request.tag, contents)
        _tag(image, request.tag)
        return Built(
            tag=request.tag,
            id=str(image.id),
            size_bytes=int(image.attrs.get("Size") or 0),
            layers=tuple(image.attrs["RootFS"]["Layers"]),
            base=base,
            library=request.library.name,
            library_version=made.version,
            library_sha256=made.sha256,
            findings=findings,
            manifest=made.manifest(),
            contents=contents,
            duration_s=time.monotonic() - started,
        )


@contextmanager
def _room() -> Iterator[None]:
    """Turn errors of this machine's disk into an ImageError with the path."""
    try:
        yield
    except OSError as error:
        where = error.filename or tempfile.gettempdir()
        raise ImageError(
            f"the build context cannot be written: {error.strerror or error} ({where})",
            hint="free space there, or use another directory: TMPDIR=/var/tmp clusterctl image build ...",
        ) from None


def _refuse(library: Library, findings: Sequence[CompatibilityFinding]) -> None:
    refused = [finding for finding in findings if finding.judgement is Compatibility.REFUSED]
    if refused:
        listed = "; ".join(f"{finding.what}: {finding.reason}" for finding in refused)
        raise ImageError(
            f"{library.title} does not work in this image: {listed}",
            hint="use another base, or the library's packages for this base; nothing was built",
        )


def _nccl_tests(wanted: PackageReference | None, folder: Path, progress: Callable[[str], None]) -> str | None:
    if wanted is None:
        return None
    target = folder / "nccl-tests"
    target.mkdir()
    package = packages.obtain(wanted, target, progress=progress)
    if package.kind != "archive":
        raise ImageError(f"nccl-tests must be given as its source archive, not as {package.file_name}")
    data = package.path.read_bytes()
    for left in target.iterdir():  # a download that the cache did not store
        left.unlink()
    (target / package.file_name).write_bytes(data)
    return package.file_name


def _run(
    client: docker.DockerClient,
    request: BuildRequest,
    folder: Path,
    dockerfile: str,
    progress: Callable[[str], None],
) -> str:
    """Let the engine build and return the image's id; it has no name yet."""
    texts = {script: (resources.text("templates", "docker", script), 0o755) for script in _SCRIPTS}
    with tempfile.TemporaryFile() as stream:
        with _room():
            _write_context(folder, {**texts, "Dockerfile": (dockerfile, 0o644)}, stream)
        stream.seek(0)
        heard = image = step = ""
        for message in client.api.build(
            fileobj=stream, custom_context=True, rm=True, forcerm=True, decode=True,
            network_mode=request.network, buildargs=dict(request.build_args) or None,
        ):  # fmt: skip
            if "error" in message:
                raise _failed(request, str(message["error"]).strip(), _last_lines(heard))
            status = message.get("status")
            # A line may arrive in pieces, each with the colour codes of its output.
            said = _COLOUR.sub("", str(message.get("stream") or (f"{status}\n" if status else "")))
            heard = (heard + said)[-_TAIL_CHARACTERS:]
            if said.strip():
                _logger.info("%s", said.strip())
                if begun := _STEP.match(said):
                    step = f"step {begun[1]} of {begun[2]}: "
                progress(step + said.strip().splitlines()[-1])
            if "aux" in message:
                image = str(message["aux"].get("ID") or image)
    if not image:
        raise ImageError(
            f"the engine returned no image for {request.tag}",
            hint="run it with -v to see the log of the build",
        )
    return image


def _last_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()][-_TAIL_LINES:]


def _tag(image: Image, tag: str) -> None:
    import docker

    try:
        image.tag(*split(tag))
    except docker.errors.APIError as error:
        raise ImageError(f"{tag!r} is not a valid image name: {error.explanation or error}") from None


def _failed(request: BuildRequest, said: str, tail: Sequence[str]) -> ImageError:
    ours = [line.partition("clusterctl: ")[2] for line in tail if line.startswith("clusterctl: ")]
    if ours:
        return ImageError(f"{request.tag} was not built: {ours[-1]}", hint=f"the base is {request.base}")
    output = "\n".join(tail)
    advice = engine.hint(f"{said}\n{output}") or _network_hint(output) or "run it with -v to see every step"
    return ImageError(f"{request.tag} was not built: {said}\n{output}", hint=advice)


def _network_hint(output: str) -> str | None:
    if any(
        text in output for text in ("Temporary failure resolving", "Could not resolve", "Failed to fetch")
    ):
        return (
            "the build cannot reach the package mirror: use --network host for this machine's network, or "
            "--build-arg http_proxy for the proxy of the environment"
        )
    if "Unable to locate package" in output or "No match for argument" in output:
        return "the base's repositories lack a package: use a base whose release is still supported"
    return None


def _contents(client: docker.DockerClient, image: str) -> tuple[ContentEntry, ...]:
    """Return what record-packages wrote into the image, read without starting it."""
    container = client.containers.create(
        image, ["true"], network_mode="none", labels={LABEL_OF_PROBES: "read"}
    )
    try:
        chunks, _stat = container.get_archive(PACKAGES_FILE)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            member = archive.extractfile(archive.getmembers()[0])
            assert member is not None
            lines = member.read().decode(errors="replace").splitlines()
    finally:
        container.remove(force=True)
    return tuple(ContentEntry(*line.split("\t")) for line in lines if line.count("\t") == 2)


def _require(tag: str, contents: Sequence[ContentEntry]) -> None:
    programs = {entry.name for entry in contents if entry.kind == "program"}
    for program in ("sshd", "mpirun"):
        if program not in programs:
            raise ImageError(
                f"the build did not install {program} in {tag}",
                hint="run it with -v and check the build's output",
            )
    keys = [entry.name for entry in contents if entry.kind == "host-key"]
    if keys:
        raise ImageError(f"{tag} has baked-in SSH host keys: {', '.join(keys)}")


def _write_context(folder: Path, texts: Mapping[str, tuple[str, int]], stream: IO[bytes]) -> None:
    """Write every file below a directory, and ``texts`` (name to text and mode), to ``stream`` as a tar.

    Times and owners are fixed, so that docker can reuse its cached layers.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (text, mode) in sorted(texts.items()):
            data = text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
        for path in sorted(folder.rglob("*")):
            member = archive.gettarinfo(str(path), arcname=path.relative_to(folder).as_posix())
            member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
            if member.isdir():
                member.mode = 0o755
            if member.isfile():
                with path.open("rb") as source:
                    archive.addfile(member, source)
            else:
                archive.addfile(member)
