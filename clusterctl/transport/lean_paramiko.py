"""Import paramiko without invoke, which it uses only for ``Match exec`` in ssh_config.

Importing invoke takes a tenth of a command's start. Commands of ``Match exec`` run here, in the same way as with ssh.
"""

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
    # None makes the import of invoke fail; paramiko continues without it.
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
    """The part of invoke's result that paramiko reads."""

    ok: bool


@cache
def _ended(command: str) -> _Ended:
    """Run a command with the user's shell and no input, once for all hosts that use the same command."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        done = subprocess.run(
            (shell, "-c", command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=EXEC_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("ssh_config: Match exec %r is treated as failed: %s", command, error)
        return _Ended(ok=False)
    return _Ended(ok=done.returncode == 0)


class _Invoke:
    """The part of invoke that paramiko's ssh_config uses."""

    @staticmethod
    def run(command: str, **_options: object) -> _Ended:
        """Run a command and return its result."""
        return _ended(command)


_config: Any = import_module("paramiko.config")
_config.invoke = _Invoke
