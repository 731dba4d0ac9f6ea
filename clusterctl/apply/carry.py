"""Copy packages, and the wheel of collective_core, to the nodes, with checksums verified on both ends."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import cast

from clusterctl import core_wheel
from clusterctl.apply.plan.model import NodePlan
from clusterctl.errors import CommandError, ConfigError, PlanError
from clusterctl.requirements.steps import InstallPackages, MakeVenv
from clusterctl.text import user_files
from clusterctl.transport.base import Transport, TransportError

SUMS = "SHA256SUMS"
_MAX_SUMS_BYTES = 4 << 20
_REMOVE_TIMEOUT_S = 60.0

# $1: the directory on the node. Prints the files of the list on standard input that are present and intact, so that
# a resumed run copies only the rest. An interrupted copy has a temporary name and is not listed.
_LOOK = """umask 077
mkdir -p "$1/files" && cat >"$1/SHA256SUMS" || exit 1
cd "$1/files" || exit 1
while read -r digest file; do
  file=${file#\\*}
  case $file in */*) mkdir -p "./${file%/*}" || exit 1 ;; esac
  [ -f "$file" ] || continue
  set -- $(sha256sum <"$file")
  [ "$1" != "$digest" ] || printf '%s\\n' "$file"
done <../SHA256SUMS"""


@dataclass(frozen=True, slots=True)
class Folder:
    """A package directory: ``sums`` pairs each file to copy with its SHA-256; ``name`` is the name used on nodes.

    Its files are in ``path``, or the only one is ``data``, which stands in no file. ``sizes``: their bytes, in order.
    """

    path: Path
    sums: tuple[tuple[str, str], ...]
    sizes: tuple[int, ...]
    data: bytes | None = None

    @property
    def name(self) -> str:
        return hashlib.sha256(self.listing).hexdigest()[:24]

    @property
    def listing(self) -> bytes:
        """Return the text that ``sha256sum -c`` reads on the node."""
        return "".join(f"{digest}  {file}\n" for file, digest in self.sums).encode()


def package_of(file: str) -> str | None:
    """Return the package name in a file name; None if the file is not a package.

    Debian: ``name_version_arch.deb`` (deb-version(7), dpkg-name(1)); RPM: ``name-version-release.arch.rpm``.
    """
    stem = PurePosixPath(file).name
    if stem.endswith(".deb"):
        return stem.partition("_")[0]
    if stem.endswith(".rpm") and stem.count("-") >= 2:
        return stem.rsplit("-", 2)[0]
    return None


def version_of(file: str) -> str:
    """Return the version in the file name of a package; RPM: with the release. Empty if the file is not a package."""
    stem = PurePosixPath(file).name
    if package_of(file) is None:
        return ""
    if stem.endswith(".deb"):
        return stem.removesuffix(".deb").split("_")[1].replace("%3a", ":") if "_" in stem else ""
    _, version, release = stem.removesuffix(".rpm").rsplit("-", 2)
    return f"{version}-{release.rpartition('.')[0]}"


def _listed(path: Path) -> dict[str, str]:
    try:
        lines = user_files.read_text(path / SUMS, _MAX_SUMS_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(
            f"the package directory {path} has no readable {SUMS}: {error}",
            hint=f"create it on a machine that you trust: cd {path} && sha256sum * > {SUMS}",
        ) from None
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        digest, _, rest = line.partition(" ")
        name = rest[1:] if rest[:1] in (" ", "*") else rest
        name = name.removeprefix("./")
        unsafe = name.startswith("/") or ".." in PurePosixPath(name).parts or not name.isprintable()
        if len(digest) != 64 or not name or unsafe or set(digest) - set("0123456789abcdef"):
            raise PlanError(
                f"{path / SUMS}:{number}: not a line of sha256sum output: {line[:100]!r}",
                hint=f"create it again: cd {path} && sha256sum * > {SUMS}",
            )
        sums[name] = digest
    return sums


@cache
def _sha256(path: Path, _size_bytes: int, _changed_ns: int) -> str:
    return user_files.sha256_of(path)


def read(folder: str, manager: str, wanted: Iterable[str]) -> Folder:
    """Read a package directory; raise PlanError if its checksums, a file or a wanted package is missing.

    All packages of the manager's type in ``SHA256SUMS`` are copied, because the node resolves dependencies among them
    only. For dnf ``repodata/``, which lists the dependencies, is copied as well.
    """
    path = Path(folder).expanduser()
    listed = _listed(path)
    suffix = ".deb" if manager == "apt" else ".rpm"
    carried = {
        name: digest
        for name, digest in listed.items()
        if name.endswith(suffix) or (manager == "dnf" and name.startswith("repodata/"))
    }
    sizes = dict.fromkeys(sorted(carried), 0)
    there = {package_of(name) for name in carried}
    missing = [package for package in wanted if package not in there]
    if missing:
        raise PlanError(
            f"the package directory {path} has no {suffix} file for: {', '.join(missing)}",
            hint=f"add these packages and their dependencies to the directory and to its {SUMS}",
        )
    if manager == "dnf" and "repodata/repomd.xml" not in carried:
        raise PlanError(
            f"the package directory {path} has no repodata/repomd.xml in its {SUMS}",
            hint=f"run createrepo_c {path}, then: cd {path} && sha256sum *.rpm repodata/* > {SUMS}",
        )
    for name, digest in carried.items():
        try:
            info = (path / name).stat()
            sizes[name] = info.st_size
            found = _sha256(path / name, info.st_size, info.st_mtime_ns)
        except OSError as error:
            raise PlanError(
                f"the package {path / name} cannot be read: {error.strerror}",
                hint=f"add the file, or remove its line from {path / SUMS}",
            ) from None
        if found != digest:
            raise PlanError(
                f"{path / name} does not match {SUMS}: its SHA-256 is {found}, expected {digest}",
                hint="download the file again from a source that you trust",
            )
    return Folder(path, tuple(sorted(carried.items())), tuple(sizes.values()))


@cache
def _core_wheel() -> Folder:
    wheel = core_wheel.installed()
    digest = hashlib.sha256(wheel.data).hexdigest()
    return Folder(Path(wheel.file_name), ((wheel.file_name, digest),), (len(wheel.data),), wheel.data)


def carried_wheel(file_name: str) -> Folder:
    """Return the wheel of the installed collective_core; raise PlanError if it is not the planned one."""
    try:
        found = _core_wheel()
    except ConfigError as error:
        raise PlanError(error.message, hint=error.hint) from None
    if found.path.name != file_name:
        raise PlanError(
            f"the plan installs {file_name}, and this machine now has {found.path.name}",
            hint="start a new run",
        )
    return found


def folders_of(plan: NodePlan) -> dict[str, Folder]:
    """Return the package directories and wheels of a plan, read and verified; raise PlanError if one is unusable."""
    wanted: dict[tuple[str, str], list[str]] = {}
    wheels = {
        planned.step.wheel
        for planned in plan.steps
        if isinstance(planned.step, MakeVenv) and planned.step.wheel
    }
    for planned in plan.steps:
        step = planned.step
        if isinstance(step, InstallPackages) and step.folder is not None:
            wanted.setdefault((step.folder, step.manager), []).extend(step.packages)
    folders = {folder: read(folder, manager, names) for (folder, manager), names in wanted.items()}
    return {**folders, **{name: carried_wheel(name) for name in sorted(wheels)}}


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes memory-mapped, so that simultaneous transfers to many nodes share one copy."""
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(user_files.opened(path))
            if path.stat().st_size == 0:
                data = b""
            else:
                data = cast(
                    bytes, opened.enter_context(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
                )
        except OSError as error:
            # The plan was made after a successful read, so the file changed since.
            raise CommandError(
                f"the package {path} can no longer be read: {error.strerror}",
                hint="restore the file, then continue with: clusterctl bootstrap --resume",
            ) from None
        yield data


def _bytes_of(folder: Folder, name: str) -> contextlib.AbstractContextManager[bytes]:
    return _mapped(folder.path / name) if folder.data is None else contextlib.nullcontext(folder.data)


def carry(
    transport: Transport, folders: Mapping[str, Folder], place: str, on_sent: Callable[[int, int], None]
) -> None:
    """Copy missing packages to ``place`` on a node; raise CommandError if they cannot be written there.

    ``on_sent`` is called with the bytes that were copied from one directory, and with those to copy. On failure
    ``place`` is removed, because the disk may be full.
    """
    try:
        _bring(transport, folders, place, on_sent)
    except CommandError:
        with contextlib.suppress(TransportError):
            transport.run(("rm", "-rf", "--", place), timeout_s=_REMOVE_TIMEOUT_S, as_root=True)
        raise


def _bring(
    transport: Transport, folders: Mapping[str, Folder], place: str, on_sent: Callable[[int, int], None]
) -> None:
    for folder in folders.values():
        there = f"{place}/{folder.name}"
        looked = transport.run(("sh", "-c", _LOOK, "sh", there), stdin=folder.listing, as_root=True)
        if looked.returncode != 0:
            raise CommandError(
                f"{transport.node}: cannot copy packages to {there}: {looked.error_text.strip()[-300:]}",
                hint="check free space and permissions of that directory",
            )
        present = set(looked.text.splitlines())
        missing = {
            name: size
            for (name, _), size in zip(folder.sums, folder.sizes, strict=True)
            if name not in present
        }
        sent, total = 0, sum(missing.values())
        for name, size in missing.items():
            on_sent(sent, total)
            with _bytes_of(folder, name) as data:
                transport.put(data, f"{there}/files/{name}", mode=0o600, as_root=True)
            sent += size
