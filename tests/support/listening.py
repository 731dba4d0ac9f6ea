"""On which TCP ports processes listen, as the kernel says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def listening_ports(pids: Iterable[int]) -> set[int]:
    """Ports of 127.0.0.1, or of all addresses, on which one of the processes listens."""
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", str(fd.readlink())))
            except OSError:
                continue  # closed meanwhile
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Return when the condition holds; fails with `what` after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
