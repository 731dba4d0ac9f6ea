"""Ranks as processes: the Python communicator, emulated nodes, and peers that die, stop or leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Program = Callable[..., Any]


def one_node(_: int) -> Mapping[str, str]:
    return {}


def over_tcp(_: int) -> Mapping[str, str]:
    return {"CCORE_TRANSPORT": "tcp"}


def two_nodes(rank: int) -> Mapping[str, str]:
    """Ranks 0 and 2 on one emulated node, 1 and 3 on the other, each node with an address of its own."""
    return {"CCORE_NODE_ID": f"node{rank % 2}", "CCORE_SOCKET_ADDR": f"127.0.0.{2 + rank % 2}"}


@pytest.mark.parametrize(
    ("size", "per_rank", "transports"),
    [
        (1, one_node, {"0": "self"}),
        (3, one_node, {"1": "shm", "2": "shm"}),
        (2, over_tcp, {"1": "tcp"}),
        (4, two_nodes, {"1": "tcp", "2": "shm", "3": "tcp"}),
    ],
)
def test_arrays(
    program: Program, size: int, per_rank: Callable[[int], Mapping[str, str]], transports: dict[str, str]
) -> None:
    ended = program("arrays.py", size=size, per_rank=per_rank).finish()
    assert [one.returncode for one in ended] == [0] * size, ended
    peers = json.loads(ended[0].output.splitlines()[-1])
    for peer, transport in transports.items():
        assert peers[int(peer)]["transport"] == transport
    assert len({peer["pid"] for peer in peers}) == size
    assert all(peer["host"] == os.uname().nodename for peer in peers)
    if per_rank is two_nodes:
        assert [peer["address"] for peer in peers] == ["127.0.0.2", "127.0.0.3"] * 2
        assert [peer["node"] for peer in peers] == [0, 1, 0, 1]


def test_a_stopped_rank_is_a_timeout(program: Program) -> None:
    job = program("endless.py", "stop", size=2)
    report_text, _ = job.processes[0].communicate(timeout=60)
    report = json.loads(report_text.splitlines()[-1])
    assert report["code"] == "TIMEOUT"
    assert "data from rank 1" in report["text"]
    assert 2.5 < report["after_s"] < 20


def test_a_rank_that_leaves_early_is_named(program: Program) -> None:
    ended = program("endless.py", "leave", size=3).finish()
    assert ended[1].returncode == 0
    for rank in (0, 2):
        report = json.loads(ended[rank].output.splitlines()[-1])
        assert report["code"] == "REMOTE"
        assert "rank 1" in report["text"]


FORKED = """
import os
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
child = os.fork()
if child == 0:
    try:
        comm.barrier()
    except CollectiveCoreError as error:
        os._exit(0 if error.code.name == "INVALID_USAGE" else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
comm.barrier()
comm.destroy()
comm.destroy()
try:
    comm.barrier()
except CollectiveCoreError as error:
    print(error)
"""


def run_python(code: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-c", code), env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_fork_and_use_after_destroy_are_refused(environment: dict[str, str]) -> None:
    done = run_python(FORKED, environment)
    assert done.returncode == 0, done.stderr
    assert "the communicator was destroyed" in done.stdout


FORKED_WHILE_BUSY = """
import os, signal, threading
import numpy
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
from collective_core.errors import Result
comm = Communicator(0, 1, get_unique_id())
def wait_for_nobody():
    try:
        with comm.group():
            comm.recv(numpy.zeros(1), 0)
    except CollectiveCoreError as error:
        assert error.code is Result.ABORTED
waiting = threading.Thread(target=wait_for_nobody)
waiting.start()
while comm.async_error() is not Result.IN_PROGRESS:
    pass
child = os.fork()
if child == 0:
    signal.alarm(10)
    code = comm._library.cc_mem_deregister(comm._handle, 1, None)
    os._exit(0 if Result(code) is Result.INVALID_USAGE else 1)
status = os.waitpid(child, 0)[1]
comm.abort()
waiting.join()
comm.destroy()
print("child", status)
"""


def test_a_child_of_a_busy_process_is_refused_and_does_not_hang(environment: dict[str, str]) -> None:
    """What the other thread held at the fork, no thread of the child gives back."""
    done = run_python(FORKED_WHILE_BUSY, environment)
    assert done.stdout == "child 0\n", done.stdout + done.stderr


ENDED_BY_ANOTHER_THREAD = """
import threading
import numpy
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
from collective_core.errors import Result
for _ in range(20):
    identity = get_unique_id()
    pair = [None, None]
    def join(rank):
        pair[rank] = Communicator(rank, 2, identity)
    other = threading.Thread(target=join, args=(1,))
    other.start()
    join(0)
    other.join()
    def wait():
        try:
            pair[0].recv(numpy.zeros(1), 1)
        except CollectiveCoreError as error:
            assert str(error) == "aborted: cc_comm_abort was called on rank 0", error
            print("told")
    waiting = threading.Thread(target=wait)
    waiting.start()
    while pair[0].async_error() is not Result.IN_PROGRESS:
        pass
    pair[0].abort()
    pair[0].destroy()
    waiting.join()
    pair[1].destroy()
"""


def test_a_thread_whose_communicator_another_one_ends_is_told(environment: dict[str, str]) -> None:
    # What is freed is written over at once.
    done = run_python(ENDED_BY_ANOTHER_THREAD, {**environment, "MALLOC_PERTURB_": "165"})
    assert done.stdout == 20 * "told\n", done.stdout + done.stderr


def test_an_error_is_that_of_its_own_call(environment: dict[str, str]) -> None:
    code = """
import numpy
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
comm.abort()
comm.broadcast(numpy.zeros(1), 7)
"""
    assert (
        run_python(code, environment).stderr.splitlines()[-1].endswith("invalid_argument: root is not a rank")
    )


HANDLED_BY_NONE_OF_OURS = """
import os, signal
from pathlib import Path
from collective_core.communicator import Communicator, get_unique_id
from collective_core.cpu_reduce import CpuReduce
threads = Path("/proc/self/task")
before = set(os.listdir(threads))
def holds(thread, number):
    held = (threads / thread / "status").read_text().split("SigBlk:")[1].split()[0]
    return bool(int(held, 16) >> (number - 1) & 1)
with Communicator(0, 1, get_unique_id()) as comm, CpuReduce(comm):
    ours = set(os.listdir(threads)) - before
    seen = 0
    for thread in ours:
        try:
            while holds(thread, signal.SIGSEGV):  # all, until it runs
                pass
            for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGINT, signal.SIGPROF, signal.SIGTERM):
                assert holds(thread, number), (thread, number)
        except OSError:  # that of the rendezvous has ended
            continue
        seen += 1
    assert seen >= 2, ours
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
print("held")
"""


def test_no_thread_of_the_library_is_given_the_programs_signals(environment: dict[str, str]) -> None:
    done = run_python(HANDLED_BY_NONE_OF_OURS, environment)
    assert done.stdout == "held\n", done.stderr


def test_a_read_only_array_is_no_place_for_a_result(environment: dict[str, str]) -> None:
    code = """
import math
import numpy
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
constant = bytes(8)
given, free = numpy.frombuffer(constant, dtype="f4"), numpy.ones(2, "f4")
for call in (comm.all_reduce, comm.all_gather, comm.reduce_scatter, comm.all_to_all):
    try:
        call(free, given)
    except CollectiveCoreError as error:
        print(error)
    call(given, free, timeout_s=math.inf)
comm.broadcast(given, 0)
assert constant == bytes(8)
"""
    done = run_python(code, environment)
    refused = "invalid_argument: the array is read-only, and the result is to go there\n"
    assert (done.stdout, done.stderr) == (4 * refused, "")


def test_arrays_that_do_not_fit_are_refused(environment: dict[str, str]) -> None:
    code = """
import numpy
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
even = numpy.zeros(10)[::2]
for send, recv in ((even, even), (numpy.zeros(2, ">f4"),) * 2, ([1, 2], [1, 2]), (numpy.zeros(2), numpy.zeros(3)),
                   (numpy.zeros(2), numpy.zeros(2, "f4")), (numpy.zeros(2, "c8"),) * 2):
    try:
        comm.all_reduce(send, recv)
    except CollectiveCoreError as error:
        print(error.code.name)
"""
    done = run_python(code, environment)
    assert done.stdout.split() == ["INVALID_ARGUMENT"] * 6, done.stdout + done.stderr


def test_a_number_is_no_array(environment: dict[str, str]) -> None:
    """Its memory, as numpy shows it, is a copy that is gone again: what was sent was whatever came to lie there."""
    code = """
import numpy
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
array = numpy.ones(1, "f4")
for send, recv in ((array.sum(), array), (array, numpy.float32(1))):
    try:
        comm.all_reduce(send, recv)
    except CollectiveCoreError as error:
        print(error)
comm.all_reduce(numpy.asarray(array.sum()), array)
"""
    done = run_python(code, environment)
    refused = "invalid_argument: float32 is a number: make it an array of one\n"
    assert (done.stdout, done.stderr) == (2 * refused, "")


def test_what_ctypes_has_of_no_use_here_is_refused(environment: dict[str, str]) -> None:
    code = """
import ctypes
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
little, big = ctypes.c_int32.__ctype_le__, ctypes.c_int32.__ctype_be__
foreign = big if little is ctypes.c_int32 else little
for element in (ctypes.c_char, ctypes.c_wchar, ctypes.c_short, ctypes.c_void_p, ctypes.py_object, foreign):
    array = (element * 2)()
    try:
        comm.all_reduce(array, array)
    except CollectiveCoreError as error:
        print(error.code.name)
square = ((ctypes.c_double * 2) * 3)((1, 2), (3, 4), (5, 6))
twin = ((ctypes.c_double * 2) * 3)()
comm.all_reduce(square, twin)
print([list(row) for row in twin])
"""
    done = run_python(code, environment)
    told = "INVALID_ARGUMENT\n" * 6 + "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]\n"
    assert done.stdout == told, done.stdout + done.stderr


def test_a_color_that_does_not_fit_joins_no_other(environment: dict[str, str]) -> None:
    code = """
from collective_core import CollectiveCoreError
from collective_core.communicator import Communicator, get_unique_id
comm = Communicator(0, 1, get_unique_id())
for color, key in ((1 << 32, 0), (-1, 0), (0, 1 << 31)):
    try:
        comm.split(color, key)
    except CollectiveCoreError as error:
        print(error)
print(comm.split((1 << 31) - 1, -(1 << 31)).size, comm.split(None))
"""
    done = run_python(code, environment)
    assert done.stdout.splitlines() == [
        "invalid_argument: color 4294967296 is not from 0 to 2^31 - 1",
        "invalid_argument: color -1 is not from 0 to 2^31 - 1",
        "invalid_argument: key 2147483648 does not fit 32 bits",
        "1 None",
    ], done.stdout + done.stderr


def test_a_missing_library_says_what_to_do(environment: dict[str, str], tmp_path: Path) -> None:
    code = "import collective_core.communicator as c; c.get_unique_id()"
    missing = {**environment, "CCORE_LIBRARY": str(tmp_path / "none.so")}
    done = run_python(code, missing)
    assert done.returncode == 1
    assert "LibraryNotFoundError" in done.stderr
    assert "pip install" in done.stderr


def test_importing_the_package_is_cheap(environment: dict[str, str]) -> None:
    code = "import sys, collective_core; print('torch' in sys.modules, 'numpy' in sys.modules, 'ctypes' in sys.modules)"
    assert run_python(code, environment).stdout.split() == ["False"] * 3
