"""Makes the name `ccore` known to torch.distributed. Registration only adds a function."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from collective_core.errors import CollectiveCoreError
from collective_core.torch import BACKEND_NAME

ACCL = "accl"
_logger = logging.getLogger("collective_core")


def register(create: Callable[..., Any]) -> None:
    """Register the backend once, and do what CCORE_RUN and CCORE_ALIAS ask for.

    `create` makes a process group. Logs and returns where torch has no distributed package or refuses.
    """
    register_as(BACKEND_NAME, create)
    if os.environ.get("CCORE_RUN") or os.environ.get("CCORE_ALIAS"):
        _serve_unchanged_scripts(create)


def register_as(name: str, create: Callable[..., Any]) -> None:
    """Register the backend under a name, once."""
    try:
        import torch.distributed as dist

        if not dist.is_available() or name in dist.Backend.backend_list:
            return
        dist.Backend.register_backend(name, create, devices=["cpu", "cuda"])
        # torch 2.15 attaches its flight recorder to each group but those of these backends, and fails at a group
        # without a C++ backend inside.
        self_recording: set[str] = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
        self_recording.add(name)
    except Exception as error:  # noqa: BLE001  # whatever it is, it must not end the import of torch
        _logger.warning("the %s backend is not available in this torch: %s", name, error)


def _serve_unchanged_scripts(create: Callable[..., Any]) -> None:
    try:
        from collective_core import aliases, environment

        of_run = environment.flag("CCORE_RUN", fallback=False)
        aliases.install_if_wanted(of_run=of_run)
        if aliases.is_alias("torch_accl"):  # a script may name the backend and not import its plugin
            register_as(ACCL, create)
        if of_run:
            from collective_core.torch import unchanged

            unchanged.serve()
    except (ImportError, CollectiveCoreError) as error:
        _logger.warning("collective_core does not serve unchanged scripts: %s", error)
