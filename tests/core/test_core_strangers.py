"""Port scanners and garbage on the ports of real ranks, while they meet and while they work: dropped without harm."""

from __future__ import annotations

import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from listening import listening_ports, wait_until

PROGRAM = str(Path(__file__).resolve().parent / "programs" / "among_strangers.py")
CHALLENGE_BYTES = 40
"""All that a stranger may ever be told: magic, a zero, and 32 random bytes."""
MAGIC = b"CCR2"
REFUSED = (
    b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    bytes.fromhex("16030100f8010000f40303") + bytes(240),  # a TLS ClientHello
    b"\0" * 4,
    b"\xff" * 65536,
    # The right length and a plausible hello of rank 1, without the proof.
    MAGIC + struct.pack("<Iiiiiq", 1, 1, 0, 3, 0, 60000) + bytes(64),
    MAGIC + bytes(1000),
)
TOO_LITTLE = (b"", b"C", MAGIC, MAGIC + bytes(91))
"""Nothing is wrong with it so far: the connection is kept for some seconds."""
PER_RANK = {"CCORE_TRANSPORT": "tcp", "CCORE_TCP_STREAMS": "2"}


def knock(port: int, says: bytes) -> socket.socket:
    stranger = socket.create_connection(("127.0.0.1", port), timeout=15)
    try:
        stranger.sendall(says)
    except (BrokenPipeError, ConnectionResetError):
        pass  # dropped at its first bytes
    return stranger


def told(stranger: socket.socket) -> int:
    """Wait until the other side ends the connection; the number of bytes that it has said by then."""
    count = 0
    with stranger:
        try:
            while data := stranger.recv(4096):
                count += len(data)
        except ConnectionResetError:
            pass
    return count


def test_while_the_ranks_meet(ranks: Any, free_port: int, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "stop").touch()
    command = (sys.executable, PROGRAM, str(tmp_path), "3")
    ranks.start(command, 2, lambda _: {"WORLD_SIZE": "3", **PER_RANK})
    # Both wait for the third: the root of the rendezvous listens, and each for its peers.
    pids = [process.pid for process in ranks.processes]
    wait_until(lambda: len(listening_ports(pids)) == 3, "three ports")
    assert free_port in listening_ports(pids)
    waiting = []
    for port in listening_ports(pids):
        for says in TOO_LITTLE:
            waiting.append(knock(port, says))
        for says in REFUSED:
            stranger = knock(port, says)
            if port == free_port:  # the one that is served already
                assert told(stranger) <= CHALLENGE_BYTES
            else:
                waiting.append(stranger)
    waiting += [knock(free_port, b"") for _ in range(200)]
    assert all(process.poll() is None for process in ranks.processes)
    ranks.start(command, 1, lambda _: {"RANK": "2", "WORLD_SIZE": "3", **PER_RANK})
    assert [one.output for one in ranks.finish()] == ["joined\n3 rounds\n"] * 3
    assert max(map(told, waiting)) <= CHALLENGE_BYTES


def test_while_the_ranks_work(ranks: Any, free_port: int, tmp_path: Path, preload: Any) -> None:
    gate = tmp_path / "gate"
    gated = {"LD_PRELOAD": str(preload("gated_listen")), "LISTEN_GATE": str(gate)}
    says = (*REFUSED, *TOO_LITTLE)
    ranks.start((sys.executable, PROGRAM, str(tmp_path), str(len(says))), 2, lambda _: {**PER_RANK, **gated})
    pids = [process.pid for process in ranks.processes]
    for process in ranks.processes:
        assert process.stdout.readline() == "joined\n"
    # Who has met listens no more, so there is nothing to be scanned.
    wait_until(lambda: not listening_ports(pids), "ports stay open")
    with socket.socket() as stranger:
        assert stranger.connect_ex(("127.0.0.1", free_port)) != 0
    # A split opens ports for a part of a millisecond: the rendezvous, and one on each rank. Here each of them
    # stays at the gate until all strangers are in its queue, before any rank.
    gate.mkdir()
    (tmp_path / "stop").touch()
    (tmp_path / "go").touch()
    knocks = []
    scanned = set()
    deadline = time.monotonic() + 60
    while any(process.poll() is None for process in ranks.processes):
        assert time.monotonic() < deadline, [process.poll() for process in ranks.processes]
        for mark in gate.iterdir():
            scanned.add(mark.name)
            # One and then another first, so that each is the one that is looked at while the ranks wait.
            turn = len(scanned) % len(says)
            knocks += [knock(int(mark.name), words) for words in says[turn:] + says[:turn]]
            mark.unlink()
        time.sleep(0.001)
    for one in ranks.finish():
        assert one.returncode == 0, one.output
        assert one.output == f"{len(says)} rounds\n", one.output
    assert len(knocks) >= 3 * len(says) * len(says), f"{len(knocks)} knocks at {len(scanned)} ports"
    assert max(map(told, knocks)) <= CHALLENGE_BYTES
