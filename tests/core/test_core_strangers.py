"""Port scanners and garbage on the ports of real ranks, while they meet and while they work: dropped without harm."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port as new_port
from listening import listening_ports, wait_until

PROGRAMS = Path(__file__).resolve().parent / "programs"
PROGRAM = str(PROGRAMS / "among_strangers.py")
CHALLENGE_BYTES = 40
"""All that a stranger may ever receive: magic, a zero, and 32 random bytes."""
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


PROCESSES = 4
"""Of strangers: together they may open more connections than one process."""
MOST_DELAY_S = 1.0
"""What a crowd may add to the time to join. While ranks waited for it, each 1,024 strangers took 10 s."""
ATTEMPTS = 5
"""A delay by the crowd comes with each attempt; a delay by a loaded machine does not."""


@dataclass(frozen=True)
class Crowd:
    """Strangers of a kind (strangers.py): `each` per process at each rank's port, five times that at the rendezvous."""

    kind: str
    each: int

    @contextlib.contextmanager
    def there(self, rendezvous: int, ports: set[int]) -> Iterator[None]:
        """Keep them while the context lasts; all have connected on entry."""
        targets = [rendezvous] * 4 + sorted(ports)
        command = (
            sys.executable,
            str(PROGRAMS / "strangers.py"),
            self.kind,
            str(self.each),
            *map(str, targets),
        )
        with contextlib.ExitStack() as stack:
            started = []
            for _ in range(PROCESSES):
                one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                stack.callback(one.communicate)
                stack.callback(one.kill)
                started.append(one)
            for one in started:
                assert one.stdout is not None
                assert one.stdout.readline() == "here\n"
            yield


@dataclass(frozen=True)
class Job:
    """Three ranks, the last of which joins once the crowd is there."""

    ranks: Any
    folder: Path
    descriptors: int | None = None
    """The soft limit of each rank; None keeps the limit of the tests."""

    def seconds_to_join(self, crowd: Crowd | None) -> float:
        """Run it, and return how long the last rank took to join."""
        port = new_port()
        go = self.folder / f"go-{port}"
        command: tuple[str, ...] = (sys.executable, str(PROGRAMS / "late_joiner.py"), str(go))
        if self.descriptors:
            command = ("sh", "-c", f'ulimit -Sn {self.descriptors}; exec "$@"', "limited", *command)
        environment = {**PER_RANK, "CCORE_ROOT_PORT": str(port), "CCORE_INIT_TIMEOUT_S": "20"}
        self.ranks.start(command, 3, lambda _: environment)
        pids = [process.pid for process in self.ranks.processes]
        wait_until(lambda: len(listening_ports(pids)) == 3, "three ports")
        ports = listening_ports(pids)
        assert port in ports
        with crowd.there(port, ports) if crowd else contextlib.nullcontext():
            go.touch()
            ended = self.ranks.finish()
        self.ranks.processes.clear()
        assert all(one.returncode == 0 for one in ended), [one.output for one in ended]
        return float(ended[-1].output)


SILENT = Crowd("silent", 500)
"""10,000 at the rendezvous, and 2,000 at each rank that listens."""


@pytest.mark.parametrize(
    ("crowd", "descriptors"),
    [
        pytest.param(SILENT, None, id="silent"),
        pytest.param(SILENT, 256, id="silent, few descriptors"),
        pytest.param(Crowd("drip", 100), None, id="drip"),
        pytest.param(Crowd("again", 1), None, id="again"),
    ],
)
def test_a_crowd_does_not_delay_the_start(
    ranks: Any, tmp_path: Path, crowd: Crowd, descriptors: int | None
) -> None:
    job = Job(ranks, tmp_path, descriptors)
    undisturbed_s = job.seconds_to_join(None)
    took_s: list[float] = []
    while len(took_s) < ATTEMPTS:
        took_s.append(job.seconds_to_join(crowd))
        if took_s[-1] < undisturbed_s + MOST_DELAY_S:
            return
    pytest.fail(f"undisturbed {undisturbed_s} s, among strangers {took_s} s")
