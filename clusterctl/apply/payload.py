"""Pack source trees for nodes reproducibly, so that equal contents have equal checksums."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clusterctl.errors import PlanError
from clusterctl.text import user_files

LIMIT_BYTES = 64 * 1024 * 1024
"""A tree is part of the runner's script, which the node's shell holds in memory."""
EPOCH = 1_000_000_000
"""The modification time of all files, in seconds since the epoch: no source looks newer than another to ``make``."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A packed tree: the SHA-256 of its contents in hex, and the gzipped tar in base64 lines."""

    sha256: str
    base64_text: str


def pack(source: str) -> Payload:
    """Pack a directory or tarball of the controller; raise PlanError if it cannot be read or is unsafe.

    A single top directory of a tarball is stripped. Links that lead out of the tree, devices and names with ``..``
    are rejected.
    """
    path = Path(source).expanduser()
    try:
        files = _from_directory(path) if path.is_dir() else _from_tarball(path)
    except user_files.UnfitFileError as unfit:
        raise PlanError(
            f"the source tree {source} cannot be read: {unfit.filename}: {unfit.strerror}", hint=unfit.hint
        ) from None
    except (OSError, tarfile.TarError, EOFError) as error:
        raise PlanError(
            f"the source tree {source} cannot be read: {error}",
            hint="name a directory or a tarball on the machine that runs clusterctl",
        ) from error
    if not files:
        raise PlanError(
            f"the source tree {source} is empty", hint="name the directory that contains the Makefile"
        )
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            mode, content, link = files[name]
            member = tarfile.TarInfo(name)
            member.mtime, member.mode = EPOCH, mode
            if link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, link
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    if raw.tell() > LIMIT_BYTES:
        raise _too_large(source)
    packed = gzip.compress(raw.getvalue(), mtime=0)
    return Payload(hashlib.sha256(raw.getvalue()).hexdigest(), base64.encodebytes(packed).decode())


def _too_large(source: Path | str) -> PlanError:
    return PlanError(
        f"the source tree {source} holds more than {user_files.size_text(LIMIT_BYTES)}",
        hint="name a directory or a tarball that contains the sources only",
    )


Files = dict[str, tuple[int, bytes, "str | None"]]


def _mode(bits: int) -> int:
    return 0o755 if bits & 0o100 else 0o644


def _from_directory(root: Path) -> Files:
    files: Files = {}
    left = LIMIT_BYTES
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            files[name] = (0o777, b"", _inside(name, str(path.readlink())))
        elif path.is_file() and ".git" not in path.relative_to(root).parts:
            info = path.stat()
            left -= info.st_size
            if left < 0:
                raise _too_large(root)
            files[name] = (_mode(info.st_mode), user_files.read(path, LIMIT_BYTES), None)
    return files


def _from_tarball(path: Path) -> Files:
    files: Files = {}
    left = LIMIT_BYTES
    with user_files.opened(path, LIMIT_BYTES) as stream, tarfile.open(fileobj=stream, mode="r:*") as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
        names = [_plain(member.name) for member in members]
        tops = {name.partition("/")[0] for name in names}
        strip = len(tops) == 1 and all("/" in name for name in names)
        for member, full in zip(members, names, strict=True):
            name = full.partition("/")[2] if strip else full
            if member.issym():
                files[name] = (0o777, b"", _inside(name, member.linkname))
                continue
            content = archive.extractfile(member)
            left -= member.size
            if left < 0:
                raise _too_large(path)
            if content is None:
                raise PlanError(
                    f"{path}: {member.name} is neither a file nor a link",
                    hint="pack a tarball with files, directories and links only",
                )
            files[name] = (_mode(member.mode), content.read(), None)
    return files


def _plain(name: str) -> str:
    """Return a member's name without ``./``; raise PlanError if it is absolute or contains ``..``."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise PlanError(
            f"the tarball contains an unsafe name: {name!r} (absolute, empty or with '..')",
            hint="pack the tree again, from inside it",
        )
    return "/".join(parts)


def _inside(name: str, link: str) -> str:
    """Return a link's target; raise PlanError if it leads out of the tree."""
    depth = len(PurePosixPath(name).parts) - 1
    for part in PurePosixPath(link).parts:
        depth += -1 if part == ".." else 1
        if part == "/" or depth < 0:
            raise PlanError(f"the link {name!r} leads out of the tree: {link!r}", hint="remove the link")
    return link
