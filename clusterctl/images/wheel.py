"""Rebuild clusterctl's own wheel from the installed files, with the same bytes every time."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import clusterctl
from clusterctl.errors import ImageError

_NAME = "clusterctl"
_INSTALL = "install clusterctl (pip install .), or give --package wheel=FILE.whl#sha256=HEX"
# What installers add to a distribution (packaging.python.org, recording installed projects), and its own list.
_ADDED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip file can hold; a wheel's files have no times of their own."""


def rebuild(folder: Path) -> Path:
    """Write the wheel of the running clusterctl into ``folder`` and return its path.

    Raise ImageError when it runs from a checkout, or when an installed file is not what was installed.
    """
    return rebuild_from(_installed(), folder)


def rebuild_from(distribution: metadata.Distribution, folder: Path) -> Path:
    """Write the wheel of an installed distribution: its files by RECORD, checked against their sums."""
    entries: list[tuple[str, bytes, bool]] = []
    for file in sorted(distribution.files or (), key=str):
        name = PurePosixPath(str(file))
        if name.parts[0] == ".." or "__pycache__" in name.parts or _is_added(name):
            continue  # scripts are made from the entry points, bytecode by the interpreter
        path = Path(str(distribution.locate_file(file)))
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ImageError(
                f"{path}, which is part of clusterctl, cannot be read: {error.strerror}", hint=_INSTALL
            ) from None
        if file.hash is not None and file.hash.value != _digest(data, file.hash.mode):
            raise ImageError(
                f"{path} is not the file that was installed: it was changed afterwards",
                hint="install clusterctl again: pip install --force-reinstall clusterctl",
            )
        entries.append((str(name), data, path.stat().st_mode & 0o111 != 0))
    tag = _tag(distribution)
    target = folder / f"{_NAME}-{distribution.version}-{tag}.whl"
    record = f"{_NAME}-{distribution.version}.dist-info/RECORD"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name_, data, executable in entries:
            archive.writestr(_member(name_, executable), data)
        archive.writestr(_member(record, False), _record(entries, record))
    return target


def _installed() -> metadata.Distribution:
    running = Path(clusterctl.__file__).resolve()
    for distribution in metadata.distributions(name=_NAME):
        files = distribution.files or ()
        mine = (file for file in files if str(file) == f"{_NAME}/__init__.py")
        if any(Path(str(distribution.locate_file(file))).resolve() == running for file in mine):
            return distribution
    raise ImageError(
        f"clusterctl runs from {running.parent.parent}, where it is not installed: the image would get no "
        "wheel of it",
        hint=_INSTALL,
    )


def _is_added(name: PurePosixPath) -> bool:
    return name.parent.suffix == ".dist-info" and name.name in _ADDED


def _tag(distribution: metadata.Distribution) -> str:
    tags = [
        line[5:] for line in (distribution.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")
    ]
    if not tags:
        raise ImageError("the installed clusterctl does not say what its wheel was built for", hint=_INSTALL)
    # Several tags are one name with dots: py2.py3-none-any (packaging.python.org, binary distribution format).
    parts = zip(*(tag.split("-") for tag in tags), strict=True)
    return "-".join(".".join(dict.fromkeys(part)) for part in parts)


def _digest(data: bytes, algorithm: str) -> str:
    raw = hashlib.new(algorithm, data).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _record(entries: list[tuple[str, bytes, bool]], record: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, data, _executable in entries:
        writer.writerow((name, f"sha256={_digest(data, 'sha256')}", len(data)))
    writer.writerow((record, "", ""))
    return text.getvalue().encode()


def _member(name: str, executable: bool) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.create_system = 3  # Unix: the upper half of the attributes is the file's mode
    member.external_attr = (0o100755 if executable else 0o100644) << 16
    return member
