"""Raise the limit on open files for a launch: a log for every rank and a connection to every node."""

from __future__ import annotations

import resource

from clusterctl import log

_LOG = log.get(__name__)
_PER_NODE = 4
# Files that this process has open anyway, and the connections that end a launch on 64 nodes at once.
_BESIDES = 512


def make_room(ranks: int, nodes: int) -> None:
    """Raise the soft limit on open files (1024 in most shells) to what a launch needs; never lower it."""
    wanted = ranks + _PER_NODE * nodes + _BESIDES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    best = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (best, hard))
    if best < wanted:
        _LOG.warning(
            "a launch of %d ranks opens up to %d files, but this process may open only %d; raise ulimit -n",
            ranks,
            wanted,
            best,
        )
