"""TCP ports for servers that start later: free now, and given by the kernel to no connection meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
from random import SystemRandom

# Below the range from which the kernel takes the ports of connections (32768 to 60999, ip_local_port_range), and below
# clusterctl's own choice for a rendezvous: a rank of torch takes two seconds to listen, and in these a port of the
# kernel's range went to a connection of another test now and then.
_PORTS = range(10000, 20000)
# A share for each worker of xdist, from which ports go out one after the other: a listener may come a moment later.
_WORKERS = 10
_worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % _WORKERS
_own = _PORTS[_worker::_WORKERS]
_next = itertools.islice(itertools.cycle(_own), SystemRandom().randrange(len(_own)), None)


def free_ports(count: int) -> list[int]:
    """Return ``count`` ports at which nothing listens on any address of this machine."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in itertools.islice(_next, len(_own)):
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind(("", port))
                found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError(f"{count} ports were asked for, and of {len(_own)} tried {len(found)} were free")


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]
