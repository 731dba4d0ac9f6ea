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


@pytest.mark.parametrize(
    "script",
    [
        ("beat-then-lost", "hold"),
        ("beat-then-lost", "lost", "hold"),
        ("beat-then-lost", "lost", "beat-then-lost", "lost", "hold"),
    ],
    ids=["once", "a refused login after it", "and all that again"],
)
def test_a_connection_that_breaks_is_made_again(script, monkeypatch):
    monkeypatch.setattr(module, "PAUSES_S", (0.01, 0.02))
    steps = list(script)
    with Watch([Node(name="n1", address="n1")], lambda _: Line(iter([steps.pop(0)])), "t0ken") as watching:
        deadline = time.monotonic() + 20
        while steps and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert not steps and watching.lost() == {}


def test_a_connection_that_cannot_be_made_again_is_a_lost_node(monkeypatch):
    monkeypatch.setattr(module, "PAUSES_S", (0.01, 0.02))
    with watch("beat-then-lost", "lost", "lost") as watching:
        assert settles(watching, {"n1": "connection reset"})


def test_the_end_of_the_watch_waits_for_no_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSES_S", (600.0, 600.0))
    with watch("lost"):
        time.sleep(0.1)
    deadline = time.monotonic() + 20
    while any(thread.name == "watch-n1" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_silence_is_a_lost_node(monkeypatch):
    monkeypatch.setattr(module, "SILENCE_S", 0.1)
    with watch("hold") as watching:
        assert settles(watching, {"n1": "no heartbeat for 0 s"})


@pytest.mark.parametrize("connection", ["local"])
def test_this_machine_is_not_watched(connection):
    with Watch(
        [Node(name="here", address="localhost", connection=connection)], lambda _: 1 / 0, "t"
    ) as watching:
        assert watching.lost() == {}
