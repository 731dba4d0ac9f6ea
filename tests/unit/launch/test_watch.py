"""Watching nodes: words, silence, and a connection that breaks once or for good."""

import threading
import time

import pytest

from clusterctl.inventory.model import Node
from clusterctl.launch import watch as module
from clusterctl.launch.watch import Watch
from clusterctl.transport.base import Failure, FailureKind, TransportError


class Line:
    """A transport whose every run follows the next step of a script."""

    def __init__(self, steps):
        self.steps = steps
        self.closed = threading.Event()

    def run(self, argv, *, on_line):
        step = next(self.steps, "hold")
        if step == "lost":
            raise TransportError(Failure(FailureKind.LOST, "connection reset"))
        on_line("beat")
        if step == "beat-then-lost":
            raise TransportError(Failure(FailureKind.LOST, "connection reset"))
        self.closed.wait(20)
        raise TransportError(Failure(FailureKind.LOST, "closed"))

    def close(self):
        self.closed.set()


def watch(*steps):
    script = iter(steps)
    return Watch([Node(name="n1", address="n1")], lambda _: Line(script), "t0ken")


def settles(watching, expected, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if watching.lost() == expected:
            return True
        time.sleep(0.01)
    return False


def test_a_node_that_speaks_is_there():
    with watch("hold") as watching:
        time.sleep(0.1)
        assert watching.lost() == {}


def test_a_connection_that_breaks_once_is_made_again():
    with watch("beat-then-lost", "hold") as watching:
        time.sleep(0.2)
        assert watching.lost() == {}


def test_a_connection_that_breaks_twice_is_a_lost_node():
    with watch("beat-then-lost", "lost") as watching:
        assert settles(watching, {"n1": "connection reset"})


def test_silence_is_a_lost_node(monkeypatch):
    monkeypatch.setattr(module, "SILENCE_S", 0.1)
    with watch("hold") as watching:
        assert settles(watching, {"n1": "it said nothing for 0 s"})


@pytest.mark.parametrize("connection", ["local"])
def test_this_machine_is_not_watched(connection):
    with Watch(
        [Node(name="here", address="localhost", connection=connection)], lambda _: 1 / 0, "t"
    ) as watching:
        assert watching.lost() == {}
