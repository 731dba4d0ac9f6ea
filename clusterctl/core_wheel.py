"""Pack the collective_core that is installed beside clusterctl into a wheel again, with the same bytes every time.

Nodes and images get that wheel, so that they run the library that the controller has.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath

from clusterctl.errors import ConfigError

NAME = "collective_core"
INSTALL = (
    "install clusterctl with its library: uv tool install 'clusterctl[core]', pipx install 'clusterctl[core]' or "
    "pip install 'clusterctl[core]'; in a checkout: pip install . ./collective_core"
)
_LIBRARY = f"{NAME}/lib/libcollective_core.so"
_PLATFORM = re.compile(r"linux(?:[0-9]{1,4}|_[0-9]{1,3}_[0-9]{1,3})?_([a-z0-9_]{1,32})(?:\.|$)")
_GLIBC = re.compile(rb"GLIBC_([0-9]{1,3})\.([0-9]{1,3})")
# What installers add to a distribution (packaging.python.org, recording installed projects), and its own list.
_ADDED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip file can hold; a wheel's files have no times of their own."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel in memory: its file name, which installers read, and its bytes."""

    file_name: str
    data: bytes

    def write(self, folder: Path) -> Path:
        """Write the wheel into a directory and return its path."""
        path = folder / self.file_name
        path.write_bytes(self.data)
        return path


@dataclass(frozen=True, slots=True)
class Carried:
    """What the wheel of the installed collective_core runs on, read without packing it.

    ``machine``: the CPU, as ``uname -m`` prints it. ``glibc``: the oldest C library, None if the library names none.
    """

    file_name: str
    machine: str
    glibc: tuple[int, int] | None = None


@cache
def carried() -> Carried | None:
    """Return what the installed collective_core runs on; None if it is not installed, or without its library."""
    try:
        distribution = _distribution()
        tag = _tag(distribution)
        library = Path(str(distribution.locate_file(_LIBRARY))).read_bytes()
    except (ConfigError, OSError):
        return None
    found = _PLATFORM.search(tag)
    needed = [(int(major), int(minor)) for major, minor in _GLIBC.findall(library)]
    return Carried(_file_name(distribution), found[1] if found else "", max(needed, default=None))


def installed() -> Wheel:
    """Return the wheel of the collective_core that is installed for this Python.

    Raise ConfigError if it is not installed or lacks its library, or if a file is not what was installed.
    """
    return packed(_distribution())


def _distribution() -> metadata.Distribution:
    try:
        distribution = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            f"{NAME} is not installed beside clusterctl on this machine", hint=INSTALL
        ) from None
    if all(str(file) != _LIBRARY for file in distribution.files or ()):
        raise ConfigError(
            f"the installed {NAME} has no {_LIBRARY}: it was installed in editable mode, or built without it",
            hint=INSTALL,
        )
    return distribution


def packed(distribution: metadata.Distribution) -> Wheel:
    """Return the wheel of an installed distribution: its files by RECORD, checked against their sums."""
    entries: list[tuple[str, bytes, bool]] = []
    for file in sorted(distribution.files or (), key=str):
        name = PurePosixPath(str(file))
        if name.parts[0] == ".." or "__pycache__" in name.parts or _is_added(name):
            continue  # scripts are made from the entry points, bytecode by the interpreter
        path = Path(str(distribution.locate_file(file)))
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}, which is part of {NAME}: {error.strerror}", hint=INSTALL
            ) from None
        if file.hash is not None and file.hash.value != _digest(data, file.hash.mode):
            raise ConfigError(
                f"{path} was changed after its installation",
                hint=f"install {NAME} again: pip install --force-reinstall {NAME}",
            )
        entries.append((str(name), data, path.stat().st_mode & 0o111 != 0))
    record = f"{NAME}-{distribution.version}.dist-info/RECORD"
    packed_files = io.BytesIO()
    with zipfile.ZipFile(packed_files, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name_, data, executable in entries:
            archive.writestr(_member(name_, executable), data)
        archive.writestr(_member(record, False), _record(entries, record))
    return Wheel(_file_name(distribution), packed_files.getvalue())


def _file_name(distribution: metadata.Distribution) -> str:
    return f"{NAME}-{distribution.version}-{_tag(distribution)}.whl"


def _is_added(name: PurePosixPath) -> bool:
    return name.parent.suffix == ".dist-info" and name.name in _ADDED


def _tag(distribution: metadata.Distribution) -> str:
    tags = [
        line[5:] for line in (distribution.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")
    ]
    if not tags:
        raise ConfigError(
            f"the installed {NAME} does not record the platforms that it was built for", hint=INSTALL
        )
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
