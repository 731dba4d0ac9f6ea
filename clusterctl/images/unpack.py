"""Unpack a library's packages into the directory that becomes one layer: wheels, Debian packages, archives."""

from __future__ import annotations

import email.parser
import errno
import io
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from clusterctl.errors import ImageError
from clusterctl.images.packages import VerifiedPackage

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER_BYTES = 60
_LARGEST_BYTES = 32 << 30


def unpack(package: VerifiedPackage, folder: Path) -> str | None:
    """Unpack a package below ``folder`` and return the version that it states; None without one.

    Wheels and source distributions of Python go to ``python/``, Debian packages and other archives to the directory
    itself. A source distribution is not built. Raise ImageError for a file that is damaged or that has a path outside
    of the directory.
    """
    try:
        if package.kind == "wheel":
            return _wheel(package.path, folder / "python")
        if package.kind == "deb":
            return _deb(package.path, folder)
        return _archive(package.path, folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # not the package's fault
            raise
        raise _broken(package, error) from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, ValueError) as error:
        raise _broken(package, error) from None


def _broken(package: VerifiedPackage, error: Exception) -> ImageError:
    return ImageError(f"{package.file_name} cannot be unpacked: {error}", hint="is the file whole?")


def _wheel(path: Path, target: Path) -> str | None:
    version = None
    with zipfile.ZipFile(path) as archive:
        _refuse_huge(sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            if member.is_dir():
                continue
            name = _inside(member.filename)
            # A wheel's .data/purelib and .data/platlib belong beside its packages; scripts are not taken over.
            if name.parts[0].endswith(".data"):
                if len(name.parts) < 3 or name.parts[1] not in ("purelib", "platlib"):
                    continue
                name = PurePosixPath(*name.parts[2:])
            mode = 0o755 if member.external_attr >> 16 & 0o111 else 0o644
            with archive.open(member) as source:
                _write(source, target / name, mode)
            if name.match("*.dist-info/METADATA"):
                version = _version(target / name)
    return version


def _deb(path: Path, target: Path) -> str | None:
    version = None
    for name, data in _ar(path):
        if name.startswith("control.tar"):
            with tarfile.open(fileobj=_readable(name, data)) as archive:
                for member in archive:
                    control = (
                        archive.extractfile(member) if PurePosixPath(member.name).name == "control" else None
                    )
                    if control is not None:
                        version = email.parser.BytesParser().parse(control)["Version"]
        elif name.startswith("data.tar"):
            with tarfile.open(fileobj=_readable(name, data)) as archive:
                _tar(archive, target, strip=0)
    return version


def _readable(name: str, data: bytes) -> BinaryIO:
    if name.endswith(".zst"):
        raise ImageError(
            f"{name} is compressed with zstd, which Python cannot read before 3.14",
            hint="take the archive (.txz) or the wheel of the same version",
        )
    return io.BytesIO(data)


def _ar(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an ar archive (deb(5)): name and bytes."""
    with path.open("rb") as stream:
        if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
            raise ValueError("it is not a Debian package")
        while len(header := stream.read(_AR_HEADER_BYTES)) == _AR_HEADER_BYTES:
            size = int(header[48:58])
            data = stream.read(size)
            if len(data) != size:
                raise ValueError("it is cut off")
            stream.read(size % 2)
            yield header[:16].decode("ascii").strip().rstrip("/"), data


def _archive(path: Path, target: Path) -> str | None:
    with tarfile.open(path) as archive:
        # NCCL's and others' archives have one directory at the top, named after the version.
        tops = {_inside(name).parts[0] for name in archive.getnames() if _inside(name).parts}
        nested = len(tops) == 1 and any("/" in _inside(name).as_posix() for name in archive.getnames())
        top = f"{next(iter(tops))}/" if nested else ""
        of_python = f"{top}PKG-INFO" in archive.getnames()
        place = target / "python" if of_python else target
        _tar(archive, place, strip=1 if nested else 0)
    return _version(place / "PKG-INFO") if of_python else None


def _version(metadata: Path) -> str | None:
    return email.parser.BytesParser().parsebytes(metadata.read_bytes())["Version"]


def _tar(archive: tarfile.TarFile, target: Path, *, strip: int) -> None:
    written = 0
    for member in archive:
        parts = _inside(member.name).parts[strip:]
        if not parts:
            continue
        place = target.joinpath(*parts)
        if member.isfile():
            written += member.size
            _refuse_huge(written)
            source = archive.extractfile(member)
            assert source is not None
            _write(source, place, 0o755 if member.mode & 0o111 else 0o644)
        elif member.issym():
            if member.linkname.startswith("/") or ".." in PurePosixPath(member.linkname).parts:
                raise ValueError(f"{member.name} links to {member.linkname}, outside of its directory")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(member.linkname)


def _inside(name: str) -> PurePosixPath:
    """Return the path of a member; raise ValueError if it is outside of the directory."""
    path = PurePosixPath(name.removeprefix("./"))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name} is outside of the directory")
    return path


def _write(source: IO[bytes], target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():
        raise ValueError(f"{target.name} is there twice, once as a link")
    with target.open("wb") as stream:
        shutil.copyfileobj(source, stream, 1 << 20)
    target.chmod(mode)


def _refuse_huge(size_bytes: int) -> None:
    if size_bytes > _LARGEST_BYTES:
        raise ValueError(f"it holds more than {_LARGEST_BYTES >> 30} GiB")
