"""Write an inventory file: whole or not at all, and never over another file without ``--force``."""

from __future__ import annotations

from pathlib import Path

from clusterctl.errors import ConfigError, UsageError
from clusterctl.inventory.user_paths import is_there


def refuse_existing(path: Path, force: bool) -> None:
    """Raise UsageError, before any work, for a file that would be overwritten."""
    if is_there(path) and not force:
        raise UsageError(
            f"{path} already exists", hint="give another file with -o, or overwrite it with --force"
        )


def write(path: Path, text: str, force: bool) -> None:
    """Write the file atomically; with ``force``, an existing file stays until it is replaced."""
    from clusterctl.cli import report_files

    try:
        if not force:
            # Exclusive creation: a file that was created since the check is not overwritten either.
            path.open("x").close()
    except FileExistsError:
        raise UsageError(f"{path} already exists", hint="overwrite it with --force") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    try:
        report_files.write(path, text)
    except ConfigError as error:
        if not force:
            path.unlink(missing_ok=True)
        raise UsageError(error.message) from None
