"""Build the lab's root filesystem once with debootstrap, and keep it in the cache for both drivers."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clusterctl import log, resources
from clusterctl.errors import LabError
from clusterctl.lab import host, initramfs, processes, rootfs_steps
from clusterctl.lab.recipe import (
    CONTAINER_EXCLUDES,
    DISK_SIZE,
    MORE_PACKAGES,
    LabRecipe,
    cache_folder,
    current,
)

_logger = log.get(__name__)
_BUILDING = ".building"
_RECORD = "image.json"
KEPT_IMAGES = 2


@dataclass(frozen=True, slots=True)
class Image:
    """A built root filesystem, in the formats of both drivers."""

    key: str
    building: bool = False

    @property
    def folder(self) -> Path:
        return cache_folder() / (_BUILDING if self.building else self.key)

    @property
    def disk(self) -> Path:
        """The raw ext4 image, the backing file of every guest's disk."""
        return self.folder / "rootfs.ext4"

    @property
    def bare_disk(self) -> Path:
        """The image of a node that has nothing yet: no docker, no RDMA userspace, no pciutils."""
        return self.folder / "bare.ext4"

    @property
    def packages(self) -> Path:
        """The packages that a bare node lacks, with their SHA256SUMS."""
        return self.folder / "packages"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        return self.folder / "initramfs"

    @property
    def container_tar(self) -> Path:
        """The same filesystem without kernel and engine, for ``docker import``."""
        return self.folder / "container.tar"


def ensure() -> Image:
    """Return the image for the current recipe; build it first (minutes, as root) when there is none."""
    recipe = current()
    image = Image(recipe.key)
    with _locked():
        if not (image.folder / _RECORD).is_file():
            host.require_build_host()
            _build(recipe)
        # The times of the records tell which images are in use: those of older recipes need not stay.
        (image.folder / _RECORD).touch()
        _prune(keep=image.key)
    return image


def _prune(keep: str) -> None:
    """Remove the images of all recipes but this one and the one that was used last before it.

    Not one that a running guest has open: its disk is a difference from that image.
    """
    records = sorted(cache_folder().glob(f"*/{_RECORD}"), key=lambda path: path.stat().st_mtime, reverse=True)
    older = [path.parent for path in records if path.parent.name != keep]
    for folder in older[KEPT_IMAGES - 1 :]:
        if processes.any_has_open(folder):
            continue
        _logger.info("removing the root filesystem of an older recipe: %s", folder)
        shutil.rmtree(folder)


def purge() -> None:
    """Remove every image from the cache; the lock file's directory too."""
    if not cache_folder().is_dir():
        return
    with _locked():
        shutil.rmtree(cache_folder())


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the cache for this process alone; two labs that start at once build one image."""
    folder = cache_folder()
    while True:
        path = folder / "lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            opened = path.open("w")
        except OSError as error:
            raise LabError(
                f"cannot store the lab's root filesystem in {folder}: {error.strerror}",
                hint="set $XDG_CACHE_HOME to a writable directory with some GB of free space",
            ) from None
        with opened as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                _logger.info("another lab builds its root filesystem; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            # A purge may have removed the file while we waited: then the lock that we hold guards nothing.
            if path.exists() and path.stat().st_ino == Path(f"/proc/self/fd/{handle.fileno()}").stat().st_ino:
                yield
                return


def _build(recipe: LabRecipe) -> None:
    started = time.monotonic()
    _logger.info("building the lab's root filesystem (%s), once: this takes minutes", recipe.suite)
    done, image = Image(recipe.key), Image(recipe.key, building=True)
    if image.folder.exists():  # left by a run that was killed
        shutil.rmtree(image.folder)
    image.folder.mkdir()
    try:
        _fill(recipe, image)
        record = {"key": recipe.key, "build_s": round(time.monotonic() - started, 1)}
        (image.folder / _RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
        image.folder.rename(done.folder)
    finally:
        if image.folder.exists():
            shutil.rmtree(image.folder)
    _logger.info("built in %.0f s: %s", time.monotonic() - started, done.folder)


def _fill(recipe: LabRecipe, image: Image) -> None:
    root, scratch = image.folder / "root", image.folder / "scratch"
    rootfs_steps.bootstrap(recipe, root)
    _logger.info("installing packages")
    kernel = rootfs_steps.install_base(root)
    vmlinuz, modules = rootfs_steps.install_kernel(root, kernel, scratch)
    rootfs_steps.configure(root)
    busybox = (root / "bin/busybox").read_bytes()
    init = resources.text("templates", "lab", "init.sh")
    image.initramfs.write_bytes(initramfs.base_archive(busybox, init, modules))
    shutil.copyfile(vmlinuz, image.kernel)
    rootfs_steps.carry_packages(root, image.packages)
    _write_disk(root, image.bare_disk, scratch)
    rootfs_steps.install(root, MORE_PACKAGES)
    _write_disk(root, image.disk, scratch)
    excludes = [f"--exclude={pattern}" for pattern in CONTAINER_EXCLUDES]
    host.run(
        ("tar", "-C", str(root), "--numeric-owner", *excludes, "-cf", str(image.container_tar), "."), 600
    )
    _check(image)
    shutil.rmtree(root)
    shutil.rmtree(scratch)


def _write_disk(root: Path, disk: Path, scratch: Path) -> None:
    """Write the system as it is now, without the lists of a mirror that no guest reaches."""
    _logger.info("writing %s", disk.name)
    rootfs_steps.finish(root)
    lists = root / "var/lib/apt/lists"
    lists.rename(scratch / "lists")
    lists.mkdir()
    features = "lazy_itable_init=0,lazy_journal_init=0"
    mkfs = ("mkfs.ext4", "-q", "-F", "-L", "lab-root", "-m", "0", "-E", features, "-d", str(root))
    host.run((*mkfs, str(disk), DISK_SIZE), 600)
    lists.rmdir()
    (scratch / "lists").rename(lists)


def _check(image: Image) -> None:
    for path in (image.disk, image.bare_disk, image.kernel, image.initramfs, image.container_tar):
        if path.stat().st_size == 0:
            raise LabError(f"{path.name} came out empty", hint="is the disk full?")
