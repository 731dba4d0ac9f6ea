"""Names and numbers of a process group, in every spelling in which torch asks for them.

torch answers such questions itself only for groups with a C++ backend inside.
"""

from __future__ import annotations

import torch

from collective_core.torch import BACKEND_NAME


class Identity:
    """Mixed into the process group."""

    def __init__(self, rank: int, size: int) -> None:
        """Remember who this is."""
        self._rank = rank
        self._size = size
        self._group_name = ""
        self._group_desc = ""

    def getBackendName(self) -> str:
        """Return the name under which the backend is registered."""
        return BACKEND_NAME

    def name(self) -> str:
        """As getBackendName."""
        return BACKEND_NAME

    def setGroupName(self, name: str) -> None:
        """Remember torch's name of the group."""
        self._group_name = name

    def getGroupName(self) -> str:
        """Return torch's name of the group."""
        return self._group_name

    def setGroupDesc(self, desc: str) -> None:
        """Remember the description of the group."""
        self._group_desc = desc

    def getGroupDesc(self) -> str:
        """Return the description of the group."""
        return self._group_desc

    @property
    def group_name(self) -> str:
        """As getGroupName."""
        return self._group_name

    @property
    def group_desc(self) -> str:
        """As getGroupDesc."""
        return self._group_desc

    @property
    def _device_types(self) -> list[torch.device]:
        """Where its tensors may be: checkpoints, sharded and not, choose theirs by it."""
        return [torch.device(one) for one in _served()]

    def _get_backend(self, device: torch.device) -> Identity:
        """Return what serves a device, as torch does after a look at `_device_types`."""
        if torch.device(device).type not in _served():
            raise RuntimeError(
                f"No backend type associated with device type {device}: ccore serves {' and '.join(_served())}"
            )
        return self

    # What torch asks of that before it takes a way of NCCL's.
    supports_coalescing = False
    supports_shrinking = False
    supports_splitting = False
    supports_time_estimate = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Tell whether tensors can be made in memory of the backend's own, as torch's pools want it: no."""
        return False

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def getRank(self) -> int:
        """As rank."""
        return self._rank

    def getSize(self) -> int:
        """As size."""
        return self._size


def _served() -> list[str]:
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
