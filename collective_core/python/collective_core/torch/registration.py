"""Makes the name `ccore` known to torch.distributed. Registration only adds a function."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from collective_core.errors import CollectiveCoreError
from collective_core.torch import BACKEND_NAME

_logger = logging.getLogger("collective_core")


def register(create: Callable[..., Any]) -> None:
    """Register the backend once, and put the Horovod API in its place if CCORE_HOROVOD_ALIAS wants that.

    `create` makes a process group. Logs and returns where torch has no distributed package or refuses.
    """
    if os.environ.get("CCORE_HOROVOD_ALIAS"):
        _alias_horovod()
    try:
        import torch.distributed as dist

        if not dist.is_available() or BACKEND_NAME in dist.Backend.backend_list:
            return
        dist.Backend.register_backend(BACKEND_NAME, create, devices=["cpu", "cuda"])
    except Exception as error:  # noqa: BLE001  # whatever it is, it must not end the import of torch
        _logger.warning("the ccore backend is not available in this torch: %s", error)


def _alias_horovod() -> None:
    try:
        from collective_core.horovod.alias import install_if_wanted

        install_if_wanted()
    except (ImportError, CollectiveCoreError) as error:
        _logger.warning("horovod.torch is not aliased: %s", error)
