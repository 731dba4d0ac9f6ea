"""Which tests one worker runs one after the other (``make test`` has three workers), and which are free.

Tests with real parts start daemons, ranks and guests, and meet deadlines. Each tier of them is one group, in the order
of a run without workers: ``nodes`` (integration) searches the whole machine for what its nodes leave behind, ``lab``
searches its guests and containers only, ``core`` searches nothing. Two groups take files from the first tier, which is
the longest: ``bridged`` those whose nodes have networks of their own, ``here`` those without nodes. Both search for
their own processes only. The real groups begin, and the rest, which needs a processor and little else, fills the
workers that have ended their group.
xdist's own ``--dist loadgroup`` would do, but its release 3.8 groups nothing under pytest 9.2.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

NODES = "nodes"
LAB = "lab"
CORE = "core"
HERE = "here"
BRIDGED = "bridged"
REAL = (NODES, HERE, BRIDGED, LAB, CORE)
FREE_NICENESS = 5
"""The niceness of free tests, so that tests with deadlines come first."""
_TIERS = {"tests/integration/": NODES, "tests/lab/": LAB, "tests/core/": CORE}
# Ranks, a browser and commands on this machine, and no sshd.
_HERE = (
    "tests/integration/test_bench_libraries.py",
    "tests/integration/test_bench_local.py",
    "tests/integration/test_bench_results.py",
    "tests/integration/test_bench_terminal.py",
    "tests/integration/test_bench_variants.py",
    "tests/integration/test_hostile_ranks.py",
    "tests/integration/test_rendered_artifacts.py",
    "tests/integration/test_report_chromium.py",
    "tests/integration/test_ssh_mesh_config.py",
    "tests/integration/test_up_interrupted.py",
)
# Nodes in network namespaces, whose names and addresses are those of one worker.
_BRIDGED = (
    "tests/integration/test_bench_health.py",
    "tests/integration/test_bench_horovod.py",
    "tests/integration/test_bench_slow_node.py",
    "tests/integration/test_locate.py",
)
# Tests of these tiers that are by themselves: threads of one program, ranks that only compute, and no real part at all.
# Those that need the C++ build come late in this way, when it has ended.
_FREE = (
    "tests/core/test_core_aarch64.py",
    "tests/core/test_core_docs.py",
    "tests/core/test_core_install.py",
    "tests/core/test_core_native.py",
    "tests/core/test_core_sanitizers.py",
    "tests/core/test_core_topk.py",
    "tests/lab/test_lab_pure.py",
)


def group_of(nodeid: str) -> str:
    """Return the group of a test, which one worker runs: of free tests the file, as these may share what they found."""
    file = nodeid.partition("::")[0]
    if file in _FREE:
        return file
    if file in _HERE:
        return HERE
    if file in _BRIDGED:
        return BRIDGED
    return next((group for tier, group in _TIERS.items() if file.startswith(tier)), file)


def has_real_parts(nodeid: str) -> bool:
    """Return whether a test is of a tier with daemons, guests or ranks."""
    return nodeid.startswith(tuple(_TIERS))


class GroupScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, with these groups as scopes, in the order of the command line."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        # By size, a file with many short tests would come before those that take long.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
