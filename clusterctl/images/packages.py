"""The packages that a library is made of: named by path or URL with a sha256, and never used without it."""

from __future__ import annotations

import hashlib
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

from clusterctl import user_files
from clusterctl.errors import ImageError, UsageError
from clusterctl.images.library import Kind, Library, kind_of

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60
_LARGEST_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package as the command line names it: ``NAME=PATH_OR_URL#sha256=HEX``."""

    name: str
    source: str
    sha256: str | None

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Read the words of ``--package``; raise UsageError for what is none."""
        name, equals, rest = text.partition("=")
        source, _, fragment = rest.partition("#")
        key, _, value = fragment.partition("=")
        if not equals or not name or not source or (fragment and key != "sha256"):
            raise UsageError(
                f"{text!r} names no package",
                hint="write NAME=PATH_OR_URL#sha256=HEX, e.g. library=./accl.rpm#sha256=9f86d0...",
            )
        if fragment and not _SHA256.fullmatch(value):
            raise UsageError(
                f"{value!r} is no sha256", hint="it has 64 hexadecimal digits: sha256sum FILE prints it"
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
class Package:
    """A package at hand, whose bytes are those of its sha256."""

    name: str
    kind: Kind
    path: Path
    file_name: str
    source: str
    """Where it came from, without what an URL may hold of passwords."""
    sha256: str


def ask(library: Library, wanted: Sequence[Wanted], *, bundled: bool = True) -> None:
    """Raise ImageError unless these are the packages that the library is made of; nothing is read."""
    seen: set[str] = set()
    for entry in wanted:
        spec = library.package(entry.name)
        kind = kind_of(entry.file_name)
        if kind not in spec.kinds:
            raise ImageError(
                f"{library.title}: {entry.file_name} is a package of the kind {kind}, and {entry.name} comes as "
                f"{' or '.join(spec.kinds)}",
                hint=f"{entry.name}: {spec.what}",
            )
        if entry.name in seen:
            raise UsageError(f"--package {entry.name} is given twice")
        seen.add(entry.name)
    for spec in library.packages:
        if spec.required and spec.name not in seen and not (spec.bundled and bundled):
            raise ImageError(
                f"{library.title} needs its package {spec.name!r}",
                hint=f"--package {spec.name}=PATH_OR_URL#sha256=HEX ({spec.what})",
            )


def obtain(wanted: Wanted, folder: Path, *, progress: Callable[[str], None]) -> Package:
    """Return the package once its bytes agree with its sha256; an URL's are kept in the cache.

    ``folder`` takes what is fetched until it is known to be right. Raise ImageError when it is not.
    """
    if wanted.sha256 is None:
        raise ImageError(f"no sha256 is given for {_shown(wanted)}", hint=_hint_without(wanted))
    path = _fetched(wanted, folder, progress) if wanted.is_url else Path(wanted.source).expanduser()
    found = sha256_of(path)
    if found != wanted.sha256:
        raise ImageError(
            f"{_shown(wanted)} is not the file that is wanted: its sha256 is {found}, not {wanted.sha256}",
            hint="nothing was built; look where the file comes from before you give its own sum",
        )
    return Package(wanted.name, kind_of(wanted.file_name), path, wanted.file_name, _shown(wanted), found)


def sha256_of(path: Path) -> str:
    """Return a file's sha256; raise ImageError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with user_files.opened(path, _LARGEST_BYTES) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}", hint=user_files.hint_of(error)) from None
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return the folder that keeps what was fetched (XDG base directory specification)."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "clusterctl" / "packages"


def _shown(wanted: Wanted) -> str:
    if not wanted.is_url:
        return wanted.source
    parts = urllib.parse.urlsplit(wanted.source)
    # A password and a signature (?X-Amz-Signature=...) are for the server alone.
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _hint_without(wanted: Wanted) -> str:
    if wanted.is_url:
        return f"write {wanted.name}={_shown(wanted)}#sha256=HEX; nothing is fetched without one"
    found = sha256_of(Path(wanted.source).expanduser())
    return f"if you know where the file comes from: {wanted.name}={wanted.source}#sha256={found}"


def _fetched(wanted: Wanted, folder: Path, progress: Callable[[str], None]) -> Path:
    assert wanted.sha256 is not None
    kept = cache_folder() / wanted.sha256 / wanted.file_name
    if kept.is_file() and sha256_of(kept) == wanted.sha256:
        return kept
    scheme = wanted.source.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        raise ImageError(
            f"{_shown(wanted)}: {scheme} is not fetched", hint="give an http or https URL, or a path"
        )
    handle, name = tempfile.mkstemp(dir=folder)
    path = Path(name)
    with os.fdopen(handle, "wb") as stream:
        _download(wanted, stream.write, progress)
    if sha256_of(path) != wanted.sha256:
        return path  # obtain() says so; the cache never sees it
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copyfile(path, partial)
        partial.replace(kept)
    except OSError:
        return path  # no cache is no reason to end
    return kept


def _download(wanted: Wanted, write: Callable[[bytes], object], progress: Callable[[str], None]) -> None:
    try:
        # A deadline for every read; proxies and certificates are those of the environment.
        with urllib.request.urlopen(wanted.source, timeout=_TIMEOUT_S) as answer:
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            while chunk := answer.read(_CHUNK_BYTES):
                done += len(chunk)
                if done > _LARGEST_BYTES:
                    raise ImageError(f"{_shown(wanted)} does not end after {_LARGEST_BYTES >> 30} GiB")
                write(chunk)
                progress(f"fetch {wanted.file_name}: {done >> 20} of {total >> 20 or '?'} MiB")
            if total and done != total:
                raise ImageError(
                    f"{_shown(wanted)} broke off after {done} of {total} bytes", hint="try again"
                )
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise ImageError(
            f"{_shown(wanted)} cannot be fetched: {reason}",
            hint="fetch it by other means and give its path: NAME=PATH#sha256=HEX",
        ) from None
