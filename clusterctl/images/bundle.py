"""The directory that becomes the library's layer: its unpacked files and a manifest with their checksums."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterctl import core_wheel
from clusterctl.documents.image import ImageLibrary, LibraryFile, LibraryPackage
from clusterctl.errors import ConfigError, ImageError
from clusterctl.images import elf, packages, unpack
from clusterctl.images.library import INSIDE, UNPACKED, Library, kind_of
from clusterctl.images.packages import PackageReference, VerifiedPackage
from clusterctl.text.foreign import json_value

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A library prepared for an image, in the directory that is the build context."""

    library: Library
    version: str
    packages: tuple[VerifiedPackage, ...]
    folder: Path
    needs: tuple[elf.ElfNeeds, ...] | None
    """Its ELF files; None if this machine has no readelf."""

    @property
    def unpacked(self) -> Path:
        return self.folder / "library"

    @property
    def installed(self) -> tuple[str, ...]:
        """The files that run their own installation in the image."""
        return tuple(package.file_name for package in self.packages if package.kind not in UNPACKED)

    @property
    def sha256(self) -> str | None:
        """The checksum of the shared library; or of its first package if that package installs it."""
        files = self.manifest().files
        for file in files:
            if file.soname is not None and re.search(self.library.mapped, f"{INSIDE}/{file.path}"):
                return file.sha256
        return self.packages[0].sha256 if self.packages else None

    def manifest(self) -> ImageLibrary:
        """Return the document that the image contains beside the library."""
        return ImageLibrary.model_validate(json_value((self.unpacked / MANIFEST).read_bytes()))


def make(
    library: Library,
    wanted: Sequence[PackageReference],
    folder: Path,
    *,
    base: str | None = None,
    version: str | None = None,
    progress: Callable[[str], None],
) -> Bundle:
    """Fetch, verify and unpack a library's packages into a directory.

    ``version`` takes precedence over the packages' own versions; ``base`` is the image that they are for. Raise
    ImageError for packages that are missing, do not match their checksums, or cannot be unpacked.
    """
    packages.ask(library, wanted, base)
    scratch = folder / "scratch"
    scratch.mkdir()
    found = [packages.obtain(entry, scratch, progress=progress) for entry in wanted]
    found += _bundled(library, wanted, scratch)
    tree = folder / "library"
    tree.mkdir()
    said: str | None = None
    for package in found:
        if package.kind in UNPACKED:
            said = unpack.unpack(package, tree) or said
        else:
            target = folder / "packages" / package.file_name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(package.path, target)
    paths = elf.elf_files(tree)
    needs = elf.read(paths) if elf.available() else None
    chosen = version or said or _version_in_name(found) or "unknown"
    _write_manifest(library, chosen, found, tree, needs)
    shutil.rmtree(scratch)
    return Bundle(library, chosen, tuple(found), folder, needs)


def _bundled(library: Library, wanted: Sequence[PackageReference], scratch: Path) -> list[VerifiedPackage]:
    given = {entry.name for entry in wanted}
    made = []
    for spec in library.packages:
        if spec.bundled and spec.name not in given:
            try:
                path = core_wheel.installed().write(scratch)
            except ConfigError as error:
                raise ImageError(
                    f"the image needs the wheel of {library.name}: {error}",
                    hint=f"{error.hint}; or give --package {spec.name}=FILE.whl#sha256=HEX",
                ) from None
            made.append(
                VerifiedPackage(
                    spec.name, kind_of(path.name), path, path.name, core_wheel.NAME, packages.sha256_of(path)
                )
            )
    return made


def _version_in_name(found: Sequence[VerifiedPackage]) -> str | None:
    for package in found:
        named = re.search(r"[-_]v?(\d+\.\d+(?:\.\d+)*(?:-\d+)?)", package.file_name)
        if named:
            return named[1]
    return None


def _write_manifest(
    library: Library,
    version: str,
    found: Sequence[VerifiedPackage],
    tree: Path,
    needs: Sequence[elf.ElfNeeds] | None,
) -> None:
    sonames = {need.path: need.soname for need in needs or ()}
    files = []
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            entry = LibraryFile(
                path=path.relative_to(tree).as_posix(),
                size_bytes=path.stat().st_size,
                sha256=packages.sha256_of(path),
                soname=sonames.get(path),
            )
            files.append(entry)
    manifest = ImageLibrary(
        library=library.name,
        title=library.title,
        version=version,
        packages=tuple(
            LibraryPackage(name=p.name, file=p.file_name, source=p.source, sha256=p.sha256) for p in found
        ),
        files=tuple(files),
    )
    if (tree / MANIFEST).exists():
        raise ImageError(
            f"a package contains a file named {MANIFEST}, which clusterctl creates itself",
            hint="report this to the author of the package",
        )
    (tree / MANIFEST).write_text(json.dumps(manifest.document(), indent=1) + "\n", encoding="utf-8")
