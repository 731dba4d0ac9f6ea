"""Which tests one of several workers (``make test`` has two) runs one after the other, and which are free.

Tests with real parts start daemons, ranks and guests, look on the whole machine for what these leave behind, and meet
deadlines: they go to one worker, in the order of a run without workers. The other has what needs a processor and
little else. xdist's own ``--dist loadgroup`` would do, but its release 3.8 groups nothing under pytest 9.2.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

REAL = "real"
FREE_NICENESS = 5
"""What the other worker leaves to the one with the real parts."""
_TIERS = ("tests/integration/", "tests/core/", "tests/lab/")
# Two builds, and threads that wait for nothing but each other.
_SANITIZERS = "tests/core/test_core_sanitizers.py"
# Long, and of the core's tests those that are by themselves: threads of one program, and ranks that only compute.
_FREE = ("tests/core/test_core_native.py", "tests/core/test_core_topk.py")


def group_of(nodeid: str) -> str:
    """Return the group of a test: what has the same is run by one worker, the largest group first."""
    if nodeid.startswith(_SANITIZERS):
        return "sanitizers"
    return REAL if nodeid.startswith(_TIERS) and not nodeid.startswith(_FREE) else nodeid


class GroupScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, with these groups as scopes."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
