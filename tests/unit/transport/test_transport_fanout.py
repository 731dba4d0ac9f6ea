"""Fan-out with injected transports: failures are values, order is kept, an interrupt cuts everybody off."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from clusterctl.errors import CommandError
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.fanout import back_in_slot, fan_out, outside_slot

NODES = [Node(name=f"n{i:02d}", address=f"n{i:02d}") for i in range(20)]


class Wire:
    """A transport that only can be waited on and closed."""

    def __init__(self, node):
        self.node = node.name
        self.closed = threading.Event()

    def wait(self):
        if self.closed.wait(120):
            raise TransportError(Failure(FailureKind.LOST, "cut off"))

    def close(self):
        self.closed.set()


@pytest.fixture
def wires():
    return {}


@pytest.fixture
def connect(wires):
    def make(node):
        wires[node.name] = Wire(node)
        return wires[node.name]

    return make


def fanout_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("clusterctl-fanout")]


def test_values_and_failures_side_by_side_in_order(connect, wires):
    def work(node, transport):
        number = int(node.name[1:])
        time.sleep(0.001 * (20 - number))
        if number == 3:
            raise TransportError(Failure(FailureKind.REFUSED, "no"))
        if number == 4:
            raise CommandError("bad", hint="do")
        return number

    done = []
    outcome = fan_out(NODES, connect, work, fanout=7, on_done=lambda node, value: done.append(node.name))
    assert list(outcome) == [node.name for node in NODES]
    assert outcome["n03"] == Failure(FailureKind.REFUSED, "no")
    assert outcome["n04"] == Failure(FailureKind.ERROR, "bad", "do")
    assert outcome.values_by_node == {f"n{i:02d}": i for i in range(20) if i not in (3, 4)}
    assert sorted(done) == list(outcome)
    assert all(wire.closed.is_set() for wire in wires.values()) and not fanout_threads()


def test_a_node_that_cannot_be_connected_is_a_failure():
    def connect(node):
        raise TransportError(Failure(FailureKind.DNS, "no such host"))

    assert set(fan_out(NODES[:2], connect, lambda n, t: 1).failures) == {"n00", "n01"}


def test_no_more_than_fanout_at_once(connect):
    running, most, lock = [0], [0], threading.Lock()
    four = threading.Barrier(4)

    def work(node, transport):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        four.wait(60)
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    fan_out(NODES, connect, work, fanout=4)
    assert most[0] == 4
    assert len(fan_out([], connect, work)) == 0


def test_a_node_that_is_awaited_outside_its_slot_lets_the_others_pass(connect):
    others = threading.Barrier(len(NODES))
    running, most, lock = [0], [0], threading.Lock()

    def work(node, transport):
        with outside_slot():
            others.wait(60)  # with two slots, and no more threads, it would never end
        back_in_slot()
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.001)
        with lock:
            running[0] -= 1
        return node.name

    outcome = fan_out(NODES, connect, work, fanout=2)
    assert outcome.values_by_node == {node.name: node.name for node in NODES}
    assert most[0] <= 2 and not fanout_threads()


def test_nodes_that_fail_outside_their_slots_give_them_back_once(connect):
    def work(node, transport):
        with outside_slot():
            raise TransportError(Failure(FailureKind.TIMEOUT, "no"))

    assert len(fan_out(NODES, connect, work, fanout=1).failures) == len(NODES)
    assert not fanout_threads()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("place", ["work", "on_done"])
def test_an_interrupt_or_a_bug_cuts_the_others_off_at_once(connect, wires, error, place):
    def work(node, transport):
        if node.name == "n00":
            if place == "work":
                raise error
            return 0
        transport.wait()
        return 1

    def on_done(node, outcome):
        raise error

    began = time.monotonic()
    with pytest.raises(error):
        fan_out(NODES, connect, work, fanout=5, on_done=on_done if place == "on_done" else None)
    assert time.monotonic() - began < 20
    assert len(wires) <= 6, "no new node is contacted after the cut"
    assert all(wire.closed.is_set() for wire in wires.values()) and not fanout_threads()


def test_a_signal_that_does_not_end_the_wait_for_a_node_is_noticed(connect):
    """It reaches another thread here, as one that comes just before the wait: the wait goes on."""
    ended = []

    def work(node, transport):
        time.sleep(0.2)  # until the other thread waits; if it does not yet, the test proves nothing
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        transport.wait()
        ended.append(node.name)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            fan_out(NODES[:1], connect, work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended == [], "the interrupt counted only when the node had answered"
