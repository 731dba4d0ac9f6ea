"""Report which variables and mechanisms this rank used, and which algorithms, so that variants can be proven."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from typing import Any

import torch

from clusterctl.workloads import foreign_library
from clusterctl.workloads.cpu_quota import CpuQuota

# torch reads these when it creates a group of the backend gloo (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp and
# GlooDeviceFactory.cpp).
GLOO_READS = ("GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT")
_THREADS = "OMP_NUM_THREADS"
# Longer lines of a rank are not read.
_MOST_CALLS = 200


class Usage:
    """Collect what this rank uses; made after the ranks have joined, or with ``joined`` False without others.

    ``package`` is the part of collective_core whose operations are counted, if the backend is ccore.
    """

    def __init__(self, backend: str, *, joined: bool, package: str = "collective_core.torch") -> None:
        self._backend = backend if joined else "none"
        self._recorder: Any = None
        self._quota = CpuQuota()
        self.mechanisms: dict[str, int] = {}
        """How often each mechanism of the program itself was used."""
        self.energy: dict[str, Any] = {}
        """The report of an :class:`~clusterctl.workloads.energy.EnergyMeter`."""
        if self._backend == "ccore":
            # An older collective_core has no recorder; its settings then stay unproven.
            make = getattr(importlib.import_module(package), "usage_recorder", None)
            self._recorder = make() if make is not None else None

    def skip(self) -> None:
        """Leave out the operations up to now, which are not measured."""
        if self._recorder is not None:
            self._recorder.skip()

    def look(self) -> None:
        """Count the operations since the last call; outside of the measured time."""
        if self._recorder is not None:
            self._recorder.look()

    def report(self) -> dict[str, Any]:
        """Return the report of this rank, see :mod:`clusterctl.trust.usage`."""
        found: dict[str, Any] = {
            "reported_by": self._backend,
            "read": _read_by_torch(self._backend),
            "mechanisms": self.mechanisms,
            "files": foreign_library.files(),
            "cpu_quota": self._quota.report(),
            "energy": self.energy,
        }
        if self._recorder is None:
            reported_by = self._backend if self._backend != "ccore" else "none"
            return {**found, "reported_by": reported_by, "read": {**found["read"], **_read_by_python()}}
        used = self._recorder.usage()
        calls = [
            {"operation": operation, "bytes": size, "algorithm": algorithm, "calls": count}
            for (operation, size, algorithm), count in sorted(Counter(used.calls).most_common(_MOST_CALLS))
        ]
        return {
            **found,
            "read": {**found["read"], **used.read},
            "ignored": used.ignored,
            "transports": list(used.transports),
            "calls": calls,
        }


def _read_by_torch(backend: str) -> dict[str, str]:
    """Return the variables that torch or this program has read, from a known list."""
    names = [name for name in GLOO_READS if backend == "gloo" and os.environ.get(name)]
    if os.environ.get(_THREADS) == str(torch.get_num_threads()):
        names.append(_THREADS)
    return {name: os.environ[name] for name in names}


def _read_by_python() -> dict[str, str]:
    """Return the variables that collective_core's Python code has read, although another library moves the data."""
    environment = sys.modules.get("collective_core.environment")
    read: dict[str, str] = environment.read() if environment is not None else {}
    return read
