"""Horovod's elastic training, which is left out."""

from __future__ import annotations

from typing import Any

from collective_core.horovod.common.exceptions import not_supported


def __getattr__(name: str) -> Any:
    """Refuse every name of horovod.torch.elastic."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise not_supported(
        f"horovod.torch.elastic.{name}", "start the job with torchrun --max-restarts and load a checkpoint"
    )
