"""What processes of the same account and of another one can do with memory and channels that real ranks share."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from free_ports import free_port

ACCOUNT, STRANGER = 65531, 65532
# A rank of one host that has exchanged, and keeps what it shares. It takes its account after it has read its program,
# which the account may not be able to read; a process that was started by its account can be dumped (prctl(2)).
RANK = f"""\
import ctypes, os, sys
from collective_core import _lib
from collective_core.communicator import Communicator
_lib.library()
os.setgroups([])
os.setresgid({ACCOUNT}, {ACCOUNT}, {ACCOUNT})
os.setresuid({ACCOUNT}, {ACCOUNT}, {ACCOUNT})
assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0
ranks = Communicator.from_environment()
found = (ctypes.c_uint64 * ranks.size)()
ranks.all_gather((ctypes.c_uint64 * 1)(ranks.rank + 1), found)
assert list(found) == [1, 2]
print("ready", flush=True)
sys.stdin.read()
ranks.all_gather((ctypes.c_uint64 * 1)(ranks.rank + 1), found)
assert list(found) == [1, 2], list(found)
ranks.destroy()
"""


@pytest.fixture
def ranks(tier_unavailable: Callable[[str], None]) -> Iterator[list[int]]:
    """Give the process ids of two ranks of an account, which must end well after the test."""
    if os.geteuid() != 0:
        tier_unavailable("only root can start ranks of another account")
    environ = {
        **os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "CCORE_JOB_SECRET": "accounts", "HOME": "/nonexistent",
    }  # fmt: skip
    started = [
        subprocess.Popen(
            (sys.executable, "-c", RANK), env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd="/", text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        for one in started:
            assert one.stdout is not None and one.stdout.readline() == "ready\n", one.communicate()[1]
        yield [one.pid for one in started]
        for one in started:
            assert one.stdin is not None
            one.stdin.close()
        for one in started:
            assert one.wait(60) == 0, one.stderr.read() if one.stderr else ""
    finally:
        for one in started:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
                one.wait()
            for stream in (one.stdin, one.stdout, one.stderr):
                if stream is not None:
                    stream.close()


def descriptors(pid: int, kind: str) -> dict[str, str]:
    """Return the paths of the descriptors of a rank whose files have a name that begins so, with the names."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[str(path)] = str(path.readlink())
    return {path: name for path, name in found.items() if name.startswith(kind)}


def opened_by(account: int, paths: list[str], flags: int) -> list[str]:
    """Return which of the files a process of an account can open."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(account, account, account)
        os.setresuid(account, account, account)
        for path in paths:
            with contextlib.suppress(PermissionError):
                os.close(os.open(path, flags))
                os.write(write, f"{path}\n".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as found:
        text = found.read()
    assert os.waitpid(child, 0)[1] == 0
    return text.splitlines()


def shared_mappings(pid: int) -> dict[str, str]:
    """Return the address ranges that a rank writes and shares, with the names of their files."""
    lines = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {
        words[0]: words[5].strip() for words in lines if words[1].startswith("rw") and words[1].endswith("s")
    }


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR], ids=["read", "write"])
def test_another_account_cannot_open_what_ranks_share(ranks: list[int], flags: int) -> None:
    memory = [f"/proc/{pid}/mem" for pid in ranks]
    files = [f"/proc/{pid}/map_files/{one}" for pid in ranks for one in shared_mappings(pid)]
    assert opened_by(STRANGER, memory + files, flags) == []
    # An account is the unit of trust: nothing but Yama protects its processes from each other.
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    if not yama.exists() or yama.read_text().strip() == "0":
        assert opened_by(ACCOUNT, memory, flags) == memory


def test_what_ranks_share_has_no_name_and_no_descriptor(ranks: list[int]) -> None:
    for pid in ranks:
        names = set(shared_mappings(pid).values())
        assert names and all(name.startswith("/memfd:") for name in names), names
        assert descriptors(pid, "/memfd:") == {}
    assert [path.name for path in Path("/dev/shm").iterdir() if path.stat().st_uid == ACCOUNT] == []


def test_a_stranger_at_the_sockets_of_ranks_is_sent_away(ranks: list[int]) -> None:
    """Ranks that listen go on, whatever another account sends to their sockets."""
    inodes = {name[8:-1] for pid in ranks for name in descriptors(pid, "socket:[").values()}
    listening = [
        (bytes.fromhex(words[1].split(":")[0])[::-1], int(words[1].split(":")[1], 16))
        for words in (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        if words[3] == "0A" and words[9] in inodes
    ]
    for address, port in listening:
        host = socket.inet_ntoa(address)
        for said in (b"", b"\0" * 96, b"x" * 70_000):
            with socket.create_connection(
                (host if host != "0.0.0.0" else "127.0.0.1", port), timeout=30
            ) as at:
                at.sendall(said)
    local = [
        line.split()[7]
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]
        if line.split()[6] in inodes and len(line.split()) > 7
    ]
    assert all(name.startswith("@") for name in local), "a socket has a name in a file system"
