"""Which tests one worker runs one after the other (``make test`` has five workers), and in which order groups begin.

Tests with real parts start daemons, ranks and guests, and meet deadlines. Those that share something of this machine
are one group: accounts, journals and packages (``nodes``), the one slurm.conf (``slurm``), the docker engine
(``docker``), the guests (``guests``), the build (``core``). Every other file is a group of its own: what its nodes and
ranks use has names, ports and addresses of the worker, and it searches for its own processes only. The longest groups
begin; the free tests, which need a processor and little else, fill the workers at the end.
xdist's own ``--dist loadgroup`` would do, but its release 3.8 groups nothing under pytest 9.2.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

NODES = "nodes"
SLURM = "slurm"
DOCKER = "docker"
GUESTS = "guests"
CORE = "core"
FREE_NICENESS = 5
"""The niceness of free tests, so that tests with deadlines come first."""
_TIERS = {"tests/integration/": NODES, "tests/lab/": DOCKER, "tests/core/": CORE}
_SLURM = (
    "tests/integration/test_accept_nodes.py",
    "tests/integration/test_bench_forged.py",
    "tests/integration/test_drain_slurm.py",
    "tests/integration/test_launch_program.py",
    "tests/integration/test_launch_secrets.py",
    "tests/integration/test_launchers.py",
    "tests/integration/test_sbatch.py",
    "tests/integration/test_srun_allocation.py",
)
_GUESTS = (
    "tests/lab/test_accept_qemu.py",
    "tests/lab/test_bare_guests_page.py",
    "tests/lab/test_bench_qemu.py",
    "tests/lab/test_bootstrap_qemu.py",
    "tests/lab/test_lab_guests.py",
    "tests/lab/test_locate_qemu.py",
    "tests/lab/test_reboot_qemu.py",
)
# Files that share nothing, the longest first: ranks on this machine, nodes that only launch, networks of their own.
_APART = (
    "tests/integration/test_locate.py",
    "tests/integration/test_bootstrap_python.py",
    "tests/integration/test_shared_trees.py",
    "tests/integration/test_bench_local.py",
    "tests/integration/test_bench_variants.py",
    "tests/lab/test_dnf_container.py",
    "tests/integration/test_bench_slow_node.py",
    "tests/integration/test_mesh_launches.py",
    "tests/integration/test_bench_horovod.py",
    "tests/integration/test_bench_libraries.py",
    "tests/integration/test_bench_health.py",
    "tests/integration/test_hostile_ranks.py",
    "tests/integration/test_bench_trust.py",
    "tests/integration/test_bench_mesh.py",
    "tests/integration/test_bench_preflight.py",
    "tests/integration/test_bench_killed.py",
    "tests/integration/test_launch_cause.py",
    "tests/integration/test_ssh_mesh.py",
    "tests/integration/test_bench_killed_for_memory.py",
    "tests/integration/test_render_is_what_runs.py",
    "tests/integration/test_bench_results.py",
    "tests/integration/test_bench_terminal.py",
    "tests/integration/test_rendered_artifacts.py",
    "tests/integration/test_report_chromium.py",
    "tests/integration/test_ssh_mesh_config.py",
    "tests/integration/test_up_interrupted.py",
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
_GROUPS = {file: group for group, files in ((SLURM, _SLURM), (GUESTS, _GUESTS)) for file in files}
# By what they take, with two files that take as long as a group.
_ORDER = (DOCKER, SLURM, NODES, GUESTS, _APART[0], CORE, *_APART[1:])


def group_of(nodeid: str) -> str:
    """Return the group of a test, which one worker runs: the file, unless its tests share something with others'."""
    file = nodeid.partition("::")[0]
    if file in _FREE or file in _APART:
        return file
    return _GROUPS.get(file) or next((group for tier, group in _TIERS.items() if file.startswith(tier)), file)


def is_free(nodeid: str) -> bool:
    """Return whether a test has no deadline to meet, so that others come first."""
    return group_of(nodeid) not in _ORDER


def place_of(nodeid: str) -> int:
    """Return the place of a test's group in the order in which groups begin; free tests come last."""
    group = group_of(nodeid)
    return _ORDER.index(group) if group in _ORDER else len(_ORDER)


def has_real_parts(nodeid: str) -> bool:
    """Return whether a test is of a tier with daemons, guests or ranks."""
    return nodeid.startswith(tuple(_TIERS))


class GroupScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, with these groups as scopes, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        # By size, a file with many short tests would come before those that take long.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
