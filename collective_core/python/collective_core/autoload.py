"""The `torch.backends` entry point.

torch calls it at the end of `import torch`, and an exception here would make that import fail. So it only
registers a function; everything else is imported when a process group is made.
"""

from __future__ import annotations

from typing import Any

from collective_core.torch import registration


def register() -> None:
    """Register the backend `ccore`, whose parts are imported with the first process group."""
    registration.register(_create)


def _create(*arguments: Any) -> Any:
    from collective_core.torch_backend import create_process_group

    return create_process_group(*arguments)
