"""Write to standard streams of any encoding, and let go of those that cannot be written."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO


def takes_all(stream: TextIO) -> bool:
    """Return whether the stream can encode every character."""
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


def encodable(stream: TextIO, text: str) -> str:
    """Return the text with escapes for the characters that the stream's encoding lacks."""
    if takes_all(stream):
        return text
    return text.encode(stream.encoding, "backslashreplace").decode(stream.encoding)


def abandon(*streams: TextIO) -> None:
    """Redirect streams that cannot be written to os.devnull, so that the interpreter exits without an error."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
