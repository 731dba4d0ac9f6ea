"""paramiko, imported without invoke: it wants that for ``Match exec`` of an ssh_config alone, and a tenth of a
command's start would go into it. Commands of ``Match exec`` are run here, as ssh runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from clusterctl import log

EXEC_TIMEOUT_S = 30.0
_log = log.get(__name__)

if "paramiko" not in sys.modules and "invoke" not in sys.modules:
    modules: dict[str, Any] = sys.modules
    # None is Python's way to say that there is no such module; paramiko goes on without it.
    modules["invoke"] = None
    try:
        import paramiko
    finally:
        del modules["invoke"]
else:
    import paramiko

__all__ = ["paramiko"]


@dataclass(frozen=True, slots=True)
class _Ended:
    """What paramiko reads of a command's end."""

    ok: bool


@cache
def _ended(command: str) -> _Ended:
    """Run a command by the user's shell with no input; asked about a thousand hosts, the same one runs once."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        done = subprocess.run(
            (shell, "-c", command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=EXEC_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("ssh_config: Match exec %r counts as failed: %s", command, error)
        return _Ended(ok=False)
    return _Ended(ok=done.returncode == 0)


class _Invoke:
    """What paramiko's ssh_config uses of invoke."""

    @staticmethod
    def run(command: str, **_options: object) -> _Ended:
        """Return how a command ended."""
        return _ended(command)


_config: Any = import_module("paramiko.config")
_config.invoke = _Invoke
