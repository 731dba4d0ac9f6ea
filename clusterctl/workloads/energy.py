"""Read NVML's energy counter of this rank's GPU before and after the measured part of a run."""

from __future__ import annotations

import time
from typing import Any

import torch

from clusterctl.workloads.device.sensors import LIBRARY, NO_GPU, NvidiaSensors
from clusterctl.workloads.ranks import uuid_of


class EnergyMeter:
    """The energy counter of one GPU, from ``begin`` to ``report``."""

    def __init__(self, device: torch.device, library: str = LIBRARY) -> None:
        self._began = 0.0
        self._before_mj = 0
        self._sensors: NvidiaSensors | None = None
        self._gpu = uuid_of(device) if device.type == "cuda" else None
        self._reason = NO_GPU if device.type != "cuda" else ""
        if self._reason:
            return
        try:
            if self._gpu is None:
                raise OSError(f"torch {torch.__version__} does not report the UUID of a GPU")
            self._sensors = NvidiaSensors(self._gpu, library)
        except (OSError, AttributeError) as error:
            self._reason = str(error)

    def begin(self) -> None:
        """Read the counter before the measured part."""
        self._before_mj = self._read()
        self._began = time.monotonic()

    def report(self, work: float) -> dict[str, Any]:
        """Return the two readings, or why there are none; ``work``: the bytes or steps in between."""
        elapsed_s = time.monotonic() - self._began
        after_mj = self._read()
        if self._reason:
            return {"reason": self._reason[:200]}
        return {
            "gpu": self._gpu, "before_mj": self._before_mj, "after_mj": after_mj, "elapsed_s": round(elapsed_s, 6),
            "work": work,
        }  # fmt: skip

    def _read(self) -> int:
        if self._sensors is None or self._reason:
            return 0
        try:
            return self._sensors.energy_mj()
        except OSError as error:
            self._reason = str(error)
            return 0
