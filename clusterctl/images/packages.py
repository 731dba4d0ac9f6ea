"""Get the packages of a library by path or URL, and verify the sha256 of each before use."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl.errors import ImageError, UsageError
from clusterctl.images.library import Kind, Library, kind_of
from clusterctl.text import user_files

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60
_LARGEST_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class PackageReference:
    """A package from the command line: ``NAME=PATH_OR_URL#sha256=HEX``."""

    name: str
    source: str
    sha256: str | None

    @classmethod
    def parse(cls, text: str) -> PackageReference:
        """Parse the value of ``--package``; raise UsageError for an invalid one."""
        name, equals, rest = text.partition("=")
        source, _, fragment = rest.partition("#")
        key, _, value = fragment.partition("=")
        if not equals or not name or not source or (fragment and key != "sha256"):
            raise UsageError(
                f"{text!r} is not a valid package",
                hint="write NAME=PATH_OR_URL#sha256=HEX, e.g. library=./accl.rpm#sha256=9f86d0...",
            )
        if fragment and not _SHA256.fullmatch(value):
            raise UsageError(
                f"{value!r} is not a valid sha256",
                hint="expected 64 hexadecimal digits: sha256sum FILE prints them",
            )
        return cls(name, source, value.lower() or None)

    @property
    def is_url(self) -> bool:
        return "://" in self.source

    @property
    def file_name(self) -> str:
        """The last part of the path or of the URL's path."""
        path = urllib.parse.urlsplit(self.source).path if self.is_url else self.source
        return urllib.parse.unquote(path).rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class VerifiedPackage:
    """A local package whose sha256 was verified."""

    name: str
    kind: Kind
    path: Path
    file_name: str
    source: str
    """Its path or URL without a password."""
    sha256: str


def ask(library: Library, wanted: Sequence[PackageReference], base: str | None = None) -> None:
    """Raise ImageError unless these are the library's packages; no file is read.

    The vendor's own image, as the base, needs no package.
    """
    has_all = base is not None and library.comes_with(base)
    seen: set[str] = set()
    for entry in wanted:
        spec = library.package(entry.name)
        kind = kind_of(entry.file_name)
        if kind not in spec.kinds:
            raise ImageError(
                f"{library.title}: {entry.file_name} is a package of the kind {kind}, but {entry.name} must be "
                f"{' or '.join(spec.kinds)}",
                hint=f"{entry.name}: {spec.what}",
            )
        if entry.name in seen:
            raise UsageError(f"--package {entry.name} is given twice")
        seen.add(entry.name)
    for spec in library.packages:
        if spec.required and spec.name not in seen and not (spec.bundled or has_all):
            raise ImageError(
                f"{library.title} needs its package {spec.name!r}",
                hint=f"--package {spec.name}=PATH_OR_URL#sha256=HEX ({spec.what})",
            )


def obtain(wanted: PackageReference, folder: Path, *, progress: Callable[[str], None]) -> VerifiedPackage:
    """Return the package after verifying its sha256; downloads are kept in the cache.

    The given directory holds a download until it is verified. Raise ImageError if the sha256 differs.
    """
    if wanted.sha256 is None:
        raise ImageError(f"no sha256 is given for {_shown(wanted)}", hint=_hint_without(wanted))
    path = _fetched(wanted, folder, progress) if wanted.is_url else Path(wanted.source).expanduser()
    found = sha256_of(path)
    if found != wanted.sha256:
        raise ImageError(
            f"{_shown(wanted)} has the sha256 {found}, expected {wanted.sha256}",
            hint="nothing was built; check the origin of the file before you accept its sha256",
        )
    return VerifiedPackage(
        wanted.name, kind_of(wanted.file_name), path, wanted.file_name, _shown(wanted), found
    )


def sha256_of(path: Path) -> str:
    """Return a file's sha256; raise ImageError if it cannot be read."""
    try:
        return user_files.sha256_of(path, _LARGEST_BYTES)
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}", hint=user_files.hint_of(error)) from None


def cache_folder() -> Path:
    """Return the directory for downloads (XDG base directory specification)."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "clusterctl" / "packages"


def _shown(wanted: PackageReference) -> str:
    if not wanted.is_url:
        return wanted.source
    parts = urllib.parse.urlsplit(wanted.source)
    # Passwords and signatures (?X-Amz-Signature=...) must not be shown.
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _hint_without(wanted: PackageReference) -> str:
    if wanted.is_url:
        return f"write {wanted.name}={_shown(wanted)}#sha256=HEX; nothing is downloaded without a sha256"
    found = sha256_of(Path(wanted.source).expanduser())
    return f"if you trust the origin of the file: {wanted.name}={wanted.source}#sha256={found}"


def _fetched(wanted: PackageReference, folder: Path, progress: Callable[[str], None]) -> Path:
    assert wanted.sha256 is not None
    kept = cache_folder() / wanted.sha256 / wanted.file_name
    if kept.is_file() and sha256_of(kept) == wanted.sha256:
        return kept
    scheme = wanted.source.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        raise ImageError(
            f"{_shown(wanted)}: the URL scheme {scheme} is not supported",
            hint="use an http or https URL, or a path",
        )
    handle, name = tempfile.mkstemp(dir=folder)
    path = Path(name)
    with os.fdopen(handle, "wb") as stream:
        _download(wanted, stream.write, progress)
    if sha256_of(path) != wanted.sha256:
        return path  # obtain() reports the difference; the file is not put into the cache
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copyfile(path, partial)
        partial.replace(kept)
    except OSError:
        return path  # an unusable cache must not end the build
    return kept


def _download(
    wanted: PackageReference, write: Callable[[bytes], object], progress: Callable[[str], None]
) -> None:
    try:
        # The timeout applies to each read; proxies and certificates come from the environment.
        with urllib.request.urlopen(wanted.source, timeout=_TIMEOUT_S) as answer:
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            while chunk := answer.read(_CHUNK_BYTES):
                done += len(chunk)
                if done > _LARGEST_BYTES:
                    raise ImageError(f"{_shown(wanted)} is larger than {_LARGEST_BYTES >> 30} GiB")
                write(chunk)
                progress(f"fetch {wanted.file_name}: {done >> 20} of {total >> 20 or '?'} MiB")
            if total and done != total:
                raise ImageError(
                    f"the download of {_shown(wanted)} ended after {done} of {total} bytes", hint="try again"
                )
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise ImageError(
            f"{_shown(wanted)} cannot be downloaded: {reason}",
            hint="download it by other means and give its path: NAME=PATH#sha256=HEX",
        ) from None
