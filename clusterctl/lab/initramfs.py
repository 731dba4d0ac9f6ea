"""The guests' initial RAM filesystem: busybox, the root disk's drivers, and the node's own files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from clusterctl.errors import LabError

# Drivers without which the root disk cannot be mounted; what they depend on is added from modules.dep.
ROOT_DISK_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")

_S_IFREG = 0o100000
_S_IFDIR = 0o040000


@dataclass(frozen=True, slots=True)
class CpioEntry:
    """One file (or, with ``content`` None, directory) of an archive that the kernel unpacks at boot."""

    path: str
    content: bytes | None
    mode: int


def cpio(entries: Iterable[CpioEntry]) -> bytes:
    """Return a "newc" archive owned by root (Linux, driver-api/early-userspace/buffer-format.rst)."""
    archive = bytearray()
    number = 0
    for number, entry in enumerate(entries, start=1):
        kind = _S_IFDIR if entry.content is None else _S_IFREG
        archive += _record(number, entry.path, kind | entry.mode, entry.content or b"")
    archive += _record(number + 1, "TRAILER!!!", 0, b"")
    return bytes(archive)


def _record(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if mode & _S_IFDIR else 1
    fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def load_order(modules_dep: str, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the module files to load, dependencies first, from the text of depmod's ``modules.dep``."""
    needs: dict[str, tuple[str, ...]] = {}
    by_name: dict[str, str] = {}
    for line in modules_dep.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = tuple(rest.split())
        by_name[Path(path).name.partition(".")[0].replace("-", "_")] = path
    order: list[str] = []

    def add(path: str) -> None:
        if path in order:
            return
        for needed in needs.get(path, ()):
            add(needed)
        order.append(path)

    for name in wanted:
        if name not in by_name:
            raise LabError(f"the kernel has no module {name}", hint="is it a stock Debian kernel?")
        add(by_name[name])
    return tuple(order)


def base_archive(busybox: bytes, init: str, modules_folder: Path) -> bytes:
    """Return the archive that all nodes share; ``modules_folder`` is ``/lib/modules/<version>``."""
    order = load_order((modules_folder / "modules.dep").read_text(encoding="ascii"), ROOT_DISK_MODULES)
    names = [Path(path).name for path in order]
    entries = [
        CpioEntry("bin", None, 0o755),
        CpioEntry("bin/busybox", busybox, 0o755),
        CpioEntry("modules", None, 0o755),
        CpioEntry("modules/order", "".join(f"{name}\n" for name in names).encode(), 0o644),
        CpioEntry("init", init.encode(), 0o755),
    ]
    for path, name in zip(order, names, strict=True):
        entries.append(CpioEntry(f"modules/{name}", (modules_folder / path).read_bytes(), 0o644))
    return cpio(entries)


def node_archive(node_tar: bytes) -> bytes:
    """Return the part that makes a guest one particular node; the kernel unpacks it after the shared part."""
    return cpio([CpioEntry("node.tar", node_tar, 0o600)])
