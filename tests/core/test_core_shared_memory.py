"""Memory that ranks share: another account can neither open nor map it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from collective_core.memory import allocate


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except FileNotFoundError:  # the descriptor of this search itself
        return ""


def test_another_account_cannot_open_what_ranks_share(tier_unavailable: Callable[[str], None]) -> None:
    """Shared words and slots lie in the same kind of file."""
    if os.geteuid() != 0:
        tier_unavailable("only root can become another account")
    kept = allocate(4096)
    kept[:6] = b"secret"
    pid = os.getpid()
    (shared,) = [
        one for one in Path(f"/proc/{pid}/fd").iterdir() if "memfd:collective_core_memory" in _link(one)
    ]
    assert b"secret" in shared.read_bytes()
    ranges = re.findall(r"^([0-9a-f]+)-.*collective_core_memory", Path("/proc/self/maps").read_text(), re.M)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        code = 0
        for name, offset in ((shared, 0), (Path(f"/proc/{pid}/mem"), int(ranges[0], 16))):
            for flags in (os.O_RDONLY, os.O_RDWR):
                try:
                    os.lseek(os.open(name, flags), offset, os.SEEK_SET)
                    code = 1
                except PermissionError:
                    pass
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
