"""Write sections of an ssh_config, with paths and tokens quoted as ssh reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterctl.errors import ArtifactError

_UNWRITABLE = re.compile(r"""["\\\x00-\x1f\x7f]|\$\{""")
_PLAIN = re.compile(r"[A-Za-z0-9@%+:,./~_-]+")
Setting = tuple[str, str]


def section(condition: str, given: Iterable[Setting], *, indent: int = 2) -> str:
    """Return a section without a final newline: the line of its condition (``Host gpu01``), then its settings."""
    return f"{condition}\n{settings(given, indent=indent)}"


def settings(given: Iterable[Setting], *, indent: int = 2) -> str:
    """Return the lines of settings, without a final newline."""
    return "\n".join(f"{' ' * indent}{key} {value}" for key, value in given)


def escaped(text: str) -> str:
    """Return a text in which ssh expands no token."""
    return text.replace("%", "%%")


def path(text: str) -> str:
    """Quote a path: ssh expands '%' and ``${X}`` and splits at spaces; raise ArtifactError.

    OpenSSH before 8.7 cannot quote a double quote or a backslash; no version can quote ``${``.
    """
    if not text:
        raise ArtifactError(
            "a path in an ssh_config cannot be empty", hint="set a path, or remove the setting"
        )
    if _UNWRITABLE.search(text):
        raise ArtifactError(
            f"ssh_config cannot hold the path {text!r}",
            hint="choose a path without double quotes, backslashes and '${'",
        )
    return escaped(text) if _PLAIN.fullmatch(escaped(text)) else f'"{escaped(text)}"'
