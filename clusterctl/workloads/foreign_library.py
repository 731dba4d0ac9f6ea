"""Import a library of others in this rank, and report which of its files are mapped."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

VARIABLE = "CLUSTERCTL_LIBRARY"
"""The variable by which a launch describes the library: name, title, module, distribution, pattern of its files."""


class ForeignLibraryError(Exception):
    """Report why this rank cannot use the library."""


def load(environ: Mapping[str, str] = os.environ) -> Any:
    """Import the module of the library, and return it; None if the launch asks for no such library."""
    wanted = _wanted(environ)
    if wanted is None:
        return None
    try:
        return importlib.import_module(wanted["module"])
    except (ImportError, OSError) as error:
        raise ForeignLibraryError(
            f"{wanted['title']} needs the module {wanted['module']}, which {sys.executable} cannot import: {error}"
        ) from None


def files(environ: Mapping[str, str] = os.environ) -> list[dict[str, str]]:
    """Return path and sha256 of the library's mapped files; empty if the launch asks for no such library."""
    wanted = _wanted(environ)
    paths = _mapped(wanted["mapped"]) if wanted is not None else []
    return [{"path": path, "sha256": _sha256(path)} for path in paths]


def proof(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the version of the library's distribution and its mapped files; empty for no such library."""
    wanted = _wanted(environ)
    if wanted is None:
        return {}
    try:
        version = importlib.metadata.version(wanted["distribution"])
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return {"backend": wanted["name"], "version": version, "libraries": tuple(_mapped(wanted["mapped"]))}


def _wanted(environ: Mapping[str, str]) -> dict[str, str] | None:
    text = environ.get(VARIABLE)
    return dict(parse_qsl(text)) if text else None


def _mapped(pattern: str) -> list[str]:
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    return sorted(path for path in paths if re.search(pattern, path))


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()
