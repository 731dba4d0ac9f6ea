"""The build context as one tar file: the same files give the same bytes at any time and for any user."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO


def write(folder: Path, texts: Mapping[str, tuple[str, int]], stream: IO[bytes]) -> None:
    """Write every file below a directory, and ``texts`` (name to text and mode), to ``stream`` as a tar.

    Times and owners are fixed, so that docker can reuse its cached layers.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (text, mode) in sorted(texts.items()):
            data = text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
        for path in sorted(folder.rglob("*")):
            member = archive.gettarinfo(str(path), arcname=path.relative_to(folder).as_posix())
            member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
            if member.isdir():
                member.mode = 0o755
            if member.isfile():
                with path.open("rb") as source:
                    archive.addfile(member, source)
            else:
                archive.addfile(member)
