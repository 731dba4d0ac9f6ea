"""An image saved once from this machine's engine as one compressed file, for transfers that can resume."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clusterctl.errors import ImageError
from clusterctl.images.on_node import NodeImage, image_of
from clusterctl.text import user_files

if TYPE_CHECKING:
    import docker

Compression = Literal["zstd", "gzip"]
_COMPRESS: dict[Compression, tuple[str, ...]] = {
    # Level 3 on all cores keeps ahead of a 10 Gbit/s line.
    "zstd": ("zstd", "-q", "-3", "-T0", "-c"),
    "gzip": ("gzip", "-1", "-c"),
}
DECOMPRESS: dict[Compression, str] = {"zstd": "zstd -q -d -c", "gzip": "gzip -d -c"}
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Archive:
    """A saved image on this machine."""

    path: Path
    sha256: str
    size_bytes: int
    compression: Compression

    def piece(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, less at the end."""
        with self.path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    def remove(self) -> None:
        """Remove the file; safe to call twice."""
        self.path.unlink(missing_ok=True)


def folder() -> Path:
    """Return where archives are kept while a node still lacks them (XDG base directory specification)."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "clusterctl" / "images"


def local_image(client: docker.DockerClient, name: str) -> NodeImage | None:
    """Return the image of this name in this machine's engine; None if it does not exist."""
    import docker

    try:
        return image_of(client.images.get(name).attrs)
    except docker.errors.ImageNotFound:
        return None


def save(client: docker.DockerClient, name: str, image: NodeImage, compression: Compression) -> Archive:
    """Save an image under its name; the file of an earlier, unfinished run is reused.

    Raise ImageError if the disk is full or the compressor fails; then no file remains.
    """
    import requests

    program = _COMPRESS[compression]
    if shutil.which(program[0]) is None:
        raise ImageError(f"{program[0]} is not installed on this machine", hint=f"install {program[0]}")
    # The archive contains the image's name, so the same image under another name is another archive.
    key = hashlib.sha256(f"{name}\0{image.id}".encode()).hexdigest()[:32]
    path = folder() / f"{key}.tar.{compression}"
    if not path.is_file():
        try:
            folder().mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(client, name, path, program)
        except requests.exceptions.RequestException:
            raise  # also an OSError, but caused by the engine and not by the disk: engine.connect reports it
        except OSError as error:
            raise ImageError(
                f"{name} cannot be saved to {folder()}: {error.strerror}",
                hint="free space there, or set $XDG_CACHE_HOME to a directory on a larger disk",
            ) from None
    return Archive(path, user_files.sha256_of(path), path.stat().st_size, compression)


def _write(client: docker.DockerClient, name: str, path: Path, program: tuple[str, ...]) -> None:
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with (
            os.fdopen(handle, "wb") as out,
            tempfile.TemporaryFile() as said,
            subprocess.Popen(program, stdin=subprocess.PIPE, stdout=out, stderr=said) as process,
        ):
            assert process.stdin is not None
            try:
                for block in client.api.get_image(name, chunk_size=_BLOCK_BYTES):
                    process.stdin.write(block)
                process.stdin.close()
            except BrokenPipeError:
                pass
            except BaseException:
                process.kill()
                raise
            if process.wait() != 0:
                said.seek(0)
                words = said.read().decode(errors="replace").strip()
                raise ImageError(
                    f"{name} cannot be saved: {words or program[0] + ' failed'}", hint="is the disk full?"
                )
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
