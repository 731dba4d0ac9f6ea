"""The workloads as one program: ``python -m clusterctl.workloads NAME ..``, such as ``training`` or ``device_perf``."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the workload named by the first argument; return its exit status (2: unknown workload)."""
    words = sys.argv[1:] if argv is None else argv
    name = words[0] if words else ""
    if name == "training":
        from clusterctl.workloads import synthetic_training

        return synthetic_training.main(words[1:])
    if name == "collective":
        from clusterctl.workloads import collective_perf

        return collective_perf.main(words[1:])
    if name == "neighbours":
        from clusterctl.workloads import neighbours

        return neighbours.main(words[1:])
    if name == "locate":
        from clusterctl.workloads.locate import measure

        return measure.main(words[1:])
    if name == "device_perf":
        from clusterctl.workloads.device import perf

        return perf.main(words[1:])
    sys.stderr.write("usage: training|collective|neighbours|locate|device_perf [options]\n")
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
