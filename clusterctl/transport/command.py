"""Build the text that a node's login shell runs: quoting, environment, deadline guard and start marker."""

from __future__ import annotations

import math
import re
import shlex
import string
from collections.abc import Mapping

from clusterctl.errors import CommandError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# The text that all login shells (sh, bash, csh, fish) read identically between single quotes: csh expands "!", fish
# reads backslashes, csh ends at a newline.
_SAME_IN_ALL_SHELLS = re.compile(r"[\x20-\x7e]*\Z")
_DIFFERS = re.compile(r"['\\!]")
_PLAIN_BYTES = frozenset(string.ascii_letters.encode() + string.digits.encode() + b' _=/.,:@+-"$;|&<>()[]{}')
# Linux limits a single argument to 128 KiB (MAX_ARG_STRLEN, execve(2)).
_LONGEST_BYTES = 128 * 1024 - 1
GUARD_GRACE_S = 2
"""Seconds after the controller's own deadline when the node's guard ends a command."""


def checked_argv(argv: tuple[str, ...], env: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the command with its environment in front; raise CommandError if a word cannot be passed to a process."""
    if not argv:
        raise CommandError("the command is empty", hint="give a program to run")
    settings = dict(env or {})
    for name in settings:
        if not _VARIABLE.match(name):
            raise CommandError(
                f"{name!r} is not a valid name of an environment variable",
                hint="use letters, digits and _ only; the first character must not be a digit",
            )
    words = ("env", *(f"{k}={v}" for k, v in settings.items()), *argv) if settings else tuple(argv)
    if any("\0" in word for word in words):
        raise CommandError(
            f"{argv[0]!r}: an argument contains a NUL byte, which cannot be passed to a process",
            hint="remove the NUL byte",
        )
    return words


def shell_text(words: tuple[str, ...], *, marker: str | None, timeout_s: float | None) -> str:
    """Return POSIX sh text that prints ``marker`` and its process ID on stdout, then executes the command.

    With a deadline (``timeout_s`` in seconds) the command runs under timeout(1) if the node has it. The guard's limit
    is slightly longer than the controller's, so that no command survives a dead controller or a dropped connection.
    """
    # The process that echoes execs the command, so that $$ is the command's process group as well.
    start = f"echo {marker} $$; " if marker else ""
    if timeout_s is None:
        return f"{start}exec {shlex.join(words)}"
    seconds = math.ceil(timeout_s) + GUARD_GRACE_S
    # Without timeout, the shell itself reports that a program is missing.
    return (
        f"{start}set -- {shlex.join(words)}; "
        'if command -v timeout >/dev/null 2>&1 && command -v "$1" >/dev/null 2>&1; '
        f'then exec timeout -k 2 {seconds} "$@"; else exec "$@"; fi'
    )


def end_text(pid: int) -> str:
    """Return sh text that ends the process group of a command."""
    return f"kill -TERM -{pid} && sleep 0.3; kill -KILL -{pid} 2>/dev/null"


def for_login_shell(text: str) -> str:
    """Return a command line that runs sh text unchanged in every login shell; raise CommandError if it is too long."""
    if _SAME_IN_ALL_SHELLS.match(text) and not _DIFFERS.search(text):
        line = f"exec sh -c '{text}'"
    else:
        octal = "".join(
            chr(byte) if byte in _PLAIN_BYTES else f"\\0{byte:03o}"
            for byte in text.encode("utf-8", "surrogateescape")
        )
        line = f"""exec sh -c 'eval "$(printf %b "$1")"' sh '{octal}'"""
    if len(line) > _LONGEST_BYTES:
        raise CommandError(
            f"the command has {len(line)} bytes; Linux accepts at most {_LONGEST_BYTES} bytes in one argument",
            hint="pass long data on standard input",
        )
    return line


def shown(argv: tuple[str, ...]) -> str:
    """Return a command shortened to 80 characters for messages."""
    text = shlex.join(argv).replace("\n", " ")
    return text if len(text) <= 80 else text[:77] + "..."
