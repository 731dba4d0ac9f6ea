"""Read files that users name: regular files of a bounded size, without ever blocking.

A device may never end, and a named pipe may never get a writer; both are rejected.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import select
import stat
import time
from contextlib import suppress
from pathlib import Path

PIPE_TIMEOUT_S = 60.0
KEY_BYTES = 1 << 20
"""The largest file of one key or certificate."""
KNOWN_HOSTS_BYTES = 64 << 20
"""Enough for 65,536 nodes: their three keys each take 57 MiB."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PIECE_BYTES = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class UnfitFileError(OSError):
    """Reject a file; ``strerror`` states its kind or size and what was expected, ``hint`` what to do."""

    def __init__(self, number: int, problem: str, path: Path | str, hint: str) -> None:
        super().__init__(number, problem, str(path))
        self.hint = hint


def hint_of(error: OSError, otherwise: str | None = None) -> str | None:
    """Return the hint for a file that could not be read; ``otherwise`` for errors of the system."""
    return error.hint if isinstance(error, UnfitFileError) else otherwise


def size_text(size_bytes: int) -> str:
    """Return a number of bytes in the largest binary unit that divides it."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift} {unit}"
    return f"{size_bytes} bytes"


def is_shell_pipe(path: Path | str) -> bool:
    """Return whether a path is a pipe that the shell passed to this process: ``<(...)`` or ``... | /dev/stdin``."""
    return os.path.basename(os.path.realpath(path)).startswith("pipe:[")  # noqa: PTH119


def problem_with(path: Path | str, most_bytes: int | None = None) -> UnfitFileError | None:
    """Return why ``read`` would reject an existing file; None if it would not, or if the file cannot be found."""
    try:
        _require(_status(path), path, most_bytes)
    except UnfitFileError as unfit:
        return unfit
    except OSError:
        return None
    return None


def require(path: Path | str, most_bytes: int) -> None:
    """Raise OSError if ``read`` would reject a file; for libraries that open the path themselves."""
    opened(path, most_bytes).close()


def opened(path: Path | str, most_bytes: int | None = None, *, pipes: bool = False) -> io.BufferedReader:
    """Open a regular file, of at most ``most_bytes`` if given, without waiting for another process.

    ``os.devnull`` reads as empty. ``pipes``: also accept a pipe of the shell; reads of it wait for its writer.
    Raise UnfitFileError for a rejected file, and other OSErrors as ``open`` does.
    """
    # Check before opening: opening a device may already act on it (rewind a tape, start a watchdog).
    piped = pipes and is_shell_pipe(path)
    _require(_status(path), path, most_bytes, piped=piped)
    descriptor = os.open(path, _FLAGS)
    try:
        _require(os.fstat(descriptor), path, most_bytes, piped=piped)
        if piped:
            os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        with suppress(OSError):
            os.close(descriptor)
        raise


def read(path: Path | str, most_bytes: int, *, pipes: bool = False) -> bytes:
    """Return a file's bytes, at most ``most_bytes``; raise OSError as ``opened`` does.

    ``pipes``: also accept a pipe of the shell, whose writer must end within PIPE_TIMEOUT_S seconds.
    """
    with opened(path, most_bytes, pipes=pipes) as stream:
        data = _all(stream.fileno(), path, most_bytes)
    if len(data) > most_bytes:
        raise _too_large(path, most_bytes, None)
    return data


def read_text(path: Path | str, most_bytes: int, *, errors: str = "strict") -> str:
    """Return a file's UTF-8 text with ``\\n`` line ends; raise OSError as ``read`` does, or UnicodeDecodeError."""
    text = read(path, most_bytes).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _status(path: Path | str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116
    except ValueError as error:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from None


def _all(descriptor: int, path: Path | str, most_bytes: int) -> bytes:
    """Return the bytes of a file or pipe, up to one byte more than ``most_bytes``."""
    # os.read instead of the stream's read: it raises where a file of /proc would wait for the kernel.
    is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    deadline = time.monotonic() + PIPE_TIMEOUT_S
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    data = bytearray()
    while len(data) <= most_bytes:
        if is_pipe and not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise UnfitFileError(
                errno.ETIMEDOUT,
                f"the command that writes this pipe did not end within {PIPE_TIMEOUT_S:g} s",
                path,
                "write the output of that command to a file, and give the file instead",
            )
        piece = os.read(descriptor, min(_PIECE_BYTES, most_bytes + 1 - len(data)))
        if not piece:
            break
        data += piece
    return bytes(data)


def _require(found: os.stat_result, path: Path | str, most_bytes: int | None, *, piped: bool = False) -> None:
    kind = stat.S_IFMT(found.st_mode)
    limit = "" if most_bytes is None else f" of at most {size_text(most_bytes)}"
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind == stat.S_IFREG:
        if most_bytes is not None and found.st_size > most_bytes:
            raise _too_large(path, most_bytes, found.st_size)
    elif not (piped and kind == stat.S_IFIFO) and not _is_null(found):
        raise UnfitFileError(
            errno.EINVAL,
            f"it is {_KINDS.get(kind, 'a special file')}; expected a regular file{limit}",
            path,
            "copy its content to a file, and give that file instead",
        )


def _is_null(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116


def _too_large(path: Path | str, most_bytes: int, size_bytes: int | None) -> UnfitFileError:
    size = "more" if size_bytes is None else f"{size_bytes} bytes"
    return UnfitFileError(
        errno.EFBIG,
        f"it holds {size}; expected a regular file of at most {size_text(most_bytes)}",
        path,
        "check that this is the intended file",
    )


def sha256_of(path: Path | str, most_bytes: int | None = None) -> str:
    """Return the SHA-256 of a file, read as ``opened`` does."""
    digest = hashlib.sha256()
    with opened(path, most_bytes) as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
