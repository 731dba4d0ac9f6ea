"""The workloads as one program: ``python -m clusterctl.workloads NAME ..``, such as ``training`` or ``device_perf``."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def _load(name: str) -> Callable[[list[str]], int] | None:
    if name == "training":
        from clusterctl.workloads import synthetic_training

        return synthetic_training.main
    if name == "collective":
        from clusterctl.workloads import collective_perf

        return collective_perf.main
    if name == "neighbours":
        from clusterctl.workloads import neighbours

        return neighbours.main
    if name == "locate":
        from clusterctl.workloads.locate import measure

        return measure.main
    if name == "device_perf":
        from clusterctl.workloads.device import perf

        return perf.main
    return None


def main(argv: list[str] | None = None) -> int:
    """Run the workload named by the first argument; return its exit status (2: unknown workload)."""
    words = sys.argv[1:] if argv is None else argv
    # The import of torch makes 300,000 objects and no garbage. Collections take a third of its time, and 0.2 s each
    # while a rank measures and at its end.
    gc.disable()
    try:
        work = _load(words[0] if words else "")
        gc.freeze()
    finally:
        gc.enable()
    if work is None:
        sys.stderr.write("usage: training|collective|neighbours|locate|device_perf [options]\n")
        return 2
    return work(words[1:])


if __name__ == "__main__":
    raise SystemExit(main())
