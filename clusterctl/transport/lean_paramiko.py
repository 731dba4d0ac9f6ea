"""paramiko, imported without invoke: it wants that for ``Match exec`` of an ssh_config alone, and a tenth of a
command's start would go into it."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

_MATCH_EXEC = re.compile(r"^\s*match\b[^\n]*\bexec\b", re.IGNORECASE | re.MULTILINE)

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

__all__ = ["paramiko", "ready_for"]


def ready_for(ssh_config: str) -> None:
    """Give paramiko what it needs for this ssh_config."""
    if _MATCH_EXEC.search(ssh_config):
        config: Any = import_module("paramiko.config")
        config.invoke = import_module("invoke")
