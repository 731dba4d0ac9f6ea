"""Refuse binary files, in which a search for known errors would find nothing or matches by chance."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

from clusterctl.errors import ConfigError

_LOOKED_AT = 8192
_MOST_CONTROLS = 0.05
"""Terminal output has control characters too: escape codes, backspaces, bells."""
_CONTROLS = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_KINDS: tuple[tuple[bytes, str, str | None], ...] = (
    (
        b"\x7fELF",
        "a program, library or core dump (ELF)",
        "give the log of the program, or the backtrace of the dump",
    ),
    (b"LPKSHHRH", "a journal of systemd", "journalctl --file={name} | clusterctl explain -"),
    (b"\xfd7zXZ\x00", "compressed with xz", "xzcat {name} | clusterctl explain -"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstdcat {name} | clusterctl explain -"),
    (b"BZh", "compressed with bzip2", "bzcat {name} | clusterctl explain -"),
    (b"PK\x03\x04", "a zip archive, or a file of torch.save", "unzip -p {name} | clusterctl explain -"),
    (b"SQLite format 3\x00", "a database (SQLite)", None),
    (b"\x80", "a pickle of Python, which is not loaded", "give text logs, or JSON"),
    (b"\x89PNG", "a picture (PNG)", None),
    (b"%PDF-", "a document (PDF)", "pdftotext {name} - | clusterctl explain -"),
    (b"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 {name} | clusterctl explain -"),
    (b"\xfe\xff", "text in UTF-16", "iconv -f UTF-16 {name} | clusterctl explain -"),
)


class BinaryLogError(ConfigError):
    """A file that was given as a log is not text."""


def refuse_binary(name: str, stream: BinaryIO | Any) -> None:
    """Raise BinaryLogError if the stream begins as a binary file; its position stays.

    NUL bytes alone do not make a file binary: a crash leaves them at the end of a log.
    """
    head = stream.peek(_LOOKED_AT)[:_LOOKED_AT] if hasattr(stream, "peek") else b""
    for magic, kind, command in _KINDS:
        if head.startswith(magic):
            hint = "give text logs" if command is None else command.format(name=name)
            raise BinaryLogError(f"{name} is not a text log, but {kind}", hint=hint)
    text = head.replace(b"\0", b"")
    if len(_CONTROLS.findall(text)) > _MOST_CONTROLS * len(text):
        raise BinaryLogError(f"{name} is a binary file, not a text log", hint="give text logs")
